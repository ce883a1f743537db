package quota

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTable_stress: while the clock stands still exactly as many requests pass as the
// limits allow, and never more at once, with sweeps and settling in between.
func TestTable_stress(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	tab := New(func() time.Time { return now })
	first, _, _ := tab.Begin(Key{"acme", ""}, Limits{Requests: 1000, Tokens: 7000})
	first.Reserve(7, 0)
	first.Settle(-1)
	tab.max = 8
	var passed, inflight, tokens atomic.Int64
	l := Limits{Concurrency: 3, Requests: 1000, Tokens: 7000}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				if other, _, _ := tab.Begin(Key{fmt.Sprint(g, i%5), ""}, l); other.a != nil {
					other.Cancel()
				}
				grant, _, refusal := tab.Begin(Key{"acme", ""}, l)
				if refusal != nil {
					continue
				}
				if n := inflight.Add(1); n > 3 {
					t.Errorf("%d at once, at most 3", n)
				}
				if _, refusal := grant.Reserve(5, 5); refusal != nil {
					inflight.Add(-1)
					grant.Cancel()
					continue
				}
				inflight.Add(-1)
				if i%10 == 0 {
					grant.Cancel()
					continue
				}
				passed.Add(1)
				tokens.Add(7)
				grant.Settle(7)
			}
		})
	}
	wg.Go(func() {
		for range 2000 {
			tab.mu.Lock()
			tab.sweepLocked(now)
			tab.mu.Unlock()
		}
	})
	wg.Wait()
	passed.Add(1)
	tokens.Add(7)
	_, u, _ := tab.Begin(Key{"acme", ""}, Limits{Requests: 2000, Tokens: 14000})
	if got := int64(2000 - 1 - u.Requests.Left); got != passed.Load() {
		t.Errorf("%d requests passed, %d counted", passed.Load(), got)
	}
	if got := int64(14000 - u.Tokens.Left); got != tokens.Load() {
		t.Errorf("%d tokens passed, %d counted", tokens.Load(), got)
	}
	if passed.Load() > 1000 {
		t.Errorf("%d requests passed, at most 1000", passed.Load())
	}
}
