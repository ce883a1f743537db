package quota

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// clock is a clock that tests advance.
type clock struct{ t time.Time }

func newClock() *clock                                  { return &clock{time.Unix(1_700_000_000, 0)} }
func (c *clock) now() time.Time                         { return c.t }
func (c *clock) advance(d time.Duration)                { c.t = c.t.Add(d) }
func table(c *clock) *Table                             { return New(c.now) }
func begin(t *Table, l Limits) (Grant, Usage, *Refusal) { return t.Begin(Key{"acme", ""}, l) }

func TestBegin_requests(t *testing.T) {
	c := newClock()
	tab := table(c)
	l := Limits{Requests: 6}
	for i := range 6 {
		g, u, refusal := begin(tab, l)
		if refusal != nil || u.Requests.Limit != 6 || u.Requests.Left != 5-i ||
			u.Requests.Reset != time.Duration(i+1)*10*time.Second {
			t.Fatalf("request %d: refused %+v, usage %+v", i, refusal, u)
		}
		g.Settle(0)
	}
	g, u, refusal := begin(tab, l)
	if refusal == nil || *refusal != (Refusal{Budget: Requests, Limit: 6, After: 10 * time.Second}) ||
		u.Requests.Left != 0 || u.Requests.Reset != time.Minute {
		t.Fatalf("the seventh: refused %+v, usage %+v", refusal, u)
	}
	g.Settle(5) // of a refused request: no effect
	if _, _, refusal := tab.Begin(Key{"acme", "batch"}, l); refusal != nil {
		t.Errorf("another class is refused: %+v", refusal)
	}
	if _, _, refusal := tab.Begin(Key{"globex", ""}, l); refusal != nil {
		t.Errorf("another tenant is refused: %+v", refusal)
	}
	c.advance(10 * time.Second)
	g, _, refusal = begin(tab, l)
	if refusal != nil {
		t.Fatalf("after Retry-After: refused %+v", refusal)
	}
	g.Cancel()
	if g, _, refusal = begin(tab, l); refusal != nil {
		t.Errorf("after a cancelled one: refused %+v", refusal)
	}
	if n := tab.Stats().Refused["requests"]; n != 1 {
		t.Errorf("got %d refusals counted, want 1", n)
	}
}

func TestBegin_concurrency(t *testing.T) {
	c := newClock()
	tab := table(c)
	l := Limits{Concurrency: 2}
	a, _, _ := begin(tab, l)
	b, _, _ := begin(tab, l)
	c.advance(time.Hour) // a place comes back only when its request ends
	if _, _, refusal := begin(tab, l); refusal == nil || refusal.Budget != Concurrency || refusal.After <= 0 {
		t.Fatalf("the third: refused %+v", refusal)
	}
	a.Settle(-1)
	a.Settle(-1) // the second call has no effect
	third, _, refusal := begin(tab, l)
	if refusal != nil {
		t.Fatalf("after one ended: refused %+v", refusal)
	}
	if _, _, refusal := begin(tab, l); refusal == nil || refusal.Budget != Concurrency {
		t.Errorf("a grant that ended twice gave two places")
	}
	b.Cancel()
	third.Cancel()
}

func TestReserve(t *testing.T) {
	for _, c := range []struct {
		name           string
		prompt, output int
		refusal        *Refusal
		left           int
		settle, after  int // used, and left then
	}{
		{"settled below", 100, 200, nil, 300, 150, 450},
		{"settled above", 100, 200, nil, 300, 400, 200},
		{"settled into debt", 100, 200, nil, 300, 900, 0},
		{"unknown", 100, 200, nil, 300, -1, 300},
		{"the answer alone is too long", 100, 5000, nil, 0, 120, 480},
		{"the prompt alone is too long", 601, 0, &Refusal{Budget: Tokens, Limit: 600, Never: true}, 600, -1, 600},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := newClock()
			tab := table(clk)
			g, _, _ := begin(tab, Limits{Tokens: 600})
			u, refusal := g.Reserve(c.prompt, c.output)
			if (refusal == nil) != (c.refusal == nil) || refusal != nil && *refusal != *c.refusal || u.Tokens.Left != c.left ||
				u.Tokens.Limit != 600 {
				t.Fatalf("got %+v, %+v, want %+v and %d left", refusal, u, c.refusal, c.left)
			}
			g.Settle(c.settle)
			_, u, _ = begin(tab, Limits{Tokens: 600})
			if u.Tokens.Left != c.after {
				t.Errorf("settled with %d: got %d left, want %d", c.settle, u.Tokens.Left, c.after)
			}
		})
	}
}

func TestReserve_waits(t *testing.T) {
	clk := newClock()
	tab := table(clk)
	l := Limits{Tokens: 600, Requests: 100}
	g, _, _ := begin(tab, l)
	g.Reserve(500, 50)
	next, _, refusal := begin(tab, l)
	if refusal != nil {
		t.Fatalf("refused with 50 tokens left: %+v", refusal)
	}
	if _, refusal = next.Reserve(80, 0); refusal == nil || refusal.Budget != Tokens || refusal.After != 3*time.Second {
		t.Fatalf("30 tokens too many: %+v, want 3s", refusal)
	}
	next.Cancel()
	clk.advance(3 * time.Second)
	next, _, _ = begin(tab, l)
	if _, refusal = next.Reserve(80, 0); refusal != nil {
		t.Errorf("after Retry-After: refused %+v", refusal)
	}
	if _, u, refusal := begin(tab, l); refusal == nil || refusal.Budget != Tokens || u.Requests.Left != 99 {
		t.Errorf("with nothing left: %+v, %+v", refusal, u)
	}
}

// TestLimits_change: what was used stays used when the limits change.
func TestLimits_change(t *testing.T) {
	clk := newClock()
	tab := table(clk)
	for range 5 {
		begin(tab, Limits{Requests: 10})
	}
	if _, _, refusal := begin(tab, Limits{Requests: 5}); refusal == nil || refusal.Budget != Requests ||
		refusal.After != 12*time.Second {
		t.Errorf("tightened: %+v, want refused for 12s", refusal)
	}
	if _, u, refusal := begin(tab, Limits{Requests: 20}); refusal != nil || u.Requests.Left != 14 {
		t.Errorf("widened: %+v, %+v, want 14 left", refusal, u)
	}
	if _, u, refusal := begin(tab, Limits{}); refusal != nil || u != (Usage{}) {
		t.Errorf("lifted: %+v, %+v", refusal, u)
	}
}

// TestWindow: whatever the pattern of requests, no period has more of them than a full
// bucket and its refill.
func TestWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	clk := newClock()
	tab := table(clk)
	const limit = 120
	var taken []time.Time
	tokens := 0.0
	start := clk.t
	for range 20000 {
		clk.advance(time.Duration(rng.IntN(300)) * time.Millisecond)
		g, _, refusal := begin(tab, Limits{Requests: limit, Tokens: 6000})
		if refusal != nil {
			continue
		}
		if _, refusal := g.Reserve(rng.IntN(100), rng.IntN(100)); refusal != nil {
			g.Cancel()
			continue
		}
		tokens += float64(g.reserved)
		g.Settle(-1)
		taken = append(taken, clk.t)
		if most := 6000 + 100*clk.t.Sub(start).Seconds() + 1; tokens > most {
			t.Fatalf("%v tokens after %v, at most %v", tokens, clk.t.Sub(start), most)
		}
	}
	for i := range taken {
		for j := i; j < len(taken) && j < i+500; j++ {
			n := float64(j - i + 1)
			if most := limit + limit*taken[j].Sub(taken[i]).Minutes() + 1; n > most {
				t.Fatalf("%v requests within %v, at most %v", n, taken[j].Sub(taken[i]), most)
			}
		}
	}
	if len(taken) < 1000 {
		t.Fatalf("only %d taken", len(taken))
	}
}

// TestAccounts_bounded: unused accounts are removed; if there are none, the request
// counts in the shared account.
func TestAccounts_bounded(t *testing.T) {
	clk := newClock()
	tab := table(clk)
	tab.max = 100
	l := Limits{Requests: 60, Concurrency: 5}
	for i := range 150 {
		g, _, _ := tab.Begin(Key{fmt.Sprint(i), ""}, l)
		g.Settle(-1)
	}
	if s := tab.Stats(); s.Accounts != 100 || s.Shared != 50 {
		t.Fatalf("got %+v, want 100 accounts and 50 requests in the shared one", s)
	}
	if _, u, _ := tab.Begin(Key{"150", ""}, l); u.Requests.Left != 9 {
		t.Errorf("the shared account has %d left, want 9", u.Requests.Left)
	}
	held, _, _ := tab.Begin(Key{"0", ""}, l)
	clk.advance(time.Minute)
	tab.Begin(Key{"later", ""}, l)
	if s := tab.Stats(); s.Accounts != 2 {
		t.Errorf("after a minute: got %d accounts, want 2: one in use and the last", s.Accounts)
	}
	held.Settle(-1)
}

func TestBegin_allocs(t *testing.T) {
	tab := New(nil)
	l := Limits{Concurrency: 10, Requests: 1 << 30, Tokens: 1 << 30}
	k := Key{"acme", "default"}
	if n := testing.AllocsPerRun(1000, func() {
		g, _, _ := tab.Begin(k, l)
		g.Reserve(100, 100)
		g.Settle(120)
	}); n != 0 {
		t.Errorf("got %v allocs per request, want 0", n)
	}
}

func BenchmarkQuota(b *testing.B) {
	tab := New(nil)
	l := Limits{Concurrency: 10, Requests: 1 << 30, Tokens: 1 << 30}
	k := Key{"acme", "default"}
	b.ReportAllocs()
	for b.Loop() {
		g, _, _ := tab.Begin(k, l)
		g.Reserve(100, 100)
		g.Settle(120)
	}
}

func TestBudget_names(t *testing.T) {
	seen := map[string]bool{}
	for b := range NumBudgets {
		if n := b.String(); n == "" || seen[n] {
			t.Errorf("budget %d: name %q is empty or a duplicate", b, n)
		} else {
			seen[n] = true
		}
	}
	if NumBudgets.String() != BudgetUnset.String() {
		t.Error("an invalid budget has the name of a budget")
	}
}
