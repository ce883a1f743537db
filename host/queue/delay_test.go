package queue

import (
	"testing"
	"time"
)

// TestExpect: the expected wait is the work ahead at the rate of the lane, and a
// tenant's long queue delays another tenant only by as much as that one has.
func TestExpect(t *testing.T) {
	var q Queue
	want := func(tenant string, priority int) Want {
		return Want{Lane: "l", Pools: []string{"p"}, Tenant: tenant, Priority: priority, Tokens: 1000 - requestTokens}
	}
	now := start
	if _, known := q.Expect(want("a", 0), now); known {
		t.Error("an empty queue has an expected wait")
	}
	var waiters []*Waiter
	enter := func(tenant string, priority, n int) {
		for range n {
			waiters = append(waiters, q.Enter(want(tenant, priority), 1000, now))
		}
	}
	enter("a", 0, 30)
	if _, known := q.Expect(want("a", 0), now); known {
		t.Error("the rate of a queue that was never served is known")
	}
	for range 10 { // ten requests in a second: 10,000 tokens per second
		now = now.Add(100 * time.Millisecond)
		waiters[0].Leave(Placed, now)
		waiters = waiters[1:]
	}
	near := func(what string, w Want, seconds float64) {
		t.Helper()
		got, known := q.Expect(w, now)
		if d := got.Seconds() - seconds; !known || d < -0.1*seconds-0.01 || d > 0.1*seconds+0.01 {
			t.Errorf("%s: expected wait %v, %v, want %v s", what, got, known, seconds)
		}
	}
	near("behind twenty of its own", want("a", 0), 2)
	near("another tenant's first", want("b", 0), 0.1)
	near("of higher priority", want("a", 1), 0)
	enter("c", 5, 10)
	near("behind a higher priority too", want("b", 0), 1.1)
	now = now.Add(4 * time.Second)
	if got, _ := q.Expect(want("a", 0), now); got < 8*time.Second {
		t.Errorf("nothing was served for 4 s, and the expected wait is %v", got)
	}
	for _, w := range waiters {
		w.Leave(Left, now)
	}
	if _, known := q.Expect(want("a", 0), now); known {
		t.Error("the rate is known after the queue became empty")
	}
}
