package queue

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var start = time.Unix(1000, 0)

// rig is a queue with its waiters by name.
type rig struct {
	t *testing.T
	q Queue
	w map[string]*Waiter
}

func newRig(t *testing.T) *rig { return &rig{t: t, w: map[string]*Waiter{}} }

// enter lets a request wait: name is its tenant's and a number, "a1".
func (r *rig) enter(name string, priority, tokens int) {
	r.t.Helper()
	w := r.q.Enter(Want{Lane: "main", Pools: []string{"main"}, Tenant: name[:1], Priority: priority, Tokens: tokens}, 1000,
		start)
	if w == nil {
		r.t.Fatalf("%s is not let in", name)
	}
	r.w[name] = w
	if len(r.w) == 1 { // a place may have become free while the queue was empty: there is none
		<-w.Turn()
		w.Again()
	}
}

// turns returns the waiter that has a turn, and receives the turn.
func (r *rig) turns() string {
	var out []string
	for name, w := range r.w {
		select {
		case <-w.Turn():
			out = append(out, name)
		default:
		}
	}
	if len(out) > 1 {
		r.t.Fatalf("%v have a turn at once", out)
	}
	return strings.Join(out, " ")
}

// serve wakes until no request waits, and returns the order of placement. Each
// place serves one request, so a chance that is passed on is in vain.
func (r *rig) serve() string {
	var order []string
	for len(r.w) > 0 {
		r.q.Wake("main")
		name := r.turns()
		if name == "" {
			r.t.Fatalf("no waiter has a turn, %d wait", len(r.w))
		}
		order = append(order, name)
		w := r.w[name]
		delete(r.w, name)
		w.Leave(Placed, start)
		for tries := 0; ; tries++ {
			next := r.turns()
			if next == "" {
				break
			}
			if tries >= maxTries {
				r.t.Fatal("a round has no end")
			}
			r.w[next].Again()
		}
	}
	return strings.Join(order, " ")
}

func TestQueue_order(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"in turn":          {"a1 a2 a3", "a1 a2 a3"},
		"tenants in turn":  {"a1:8192 a2:8192 a3:8192 b1:8192 b2:8192", "a1 b1 a2 b2 a3"},
		"short ones":       {"a1:8192 a2:8192 b1:2000 b2:2000 b3:2000 b4:2000 b5:2000", "a1 b1 b2 b3 b4 a2 b5"},
		"a long one":       {"c1:1 a1:20000 b1:8192 b2:8192 b3:8192 b4:8192", "c1 b1 b2 a1 b3 b4"},
		"priority":         {"a1:1:0 b1:1:5 a2:1:5 c1:1:-1", "b1 a2 a1 c1"},
		"only long ones":   {"a1:900000 b1:1000000 a2:1", "a1 a2 b1"},
		"longest there is": {"a1:2000000000 b1:1048576", "a1 b1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, f := range strings.Fields(tc.in) {
				tokens, priority := 1, 0
				name, rest, _ := strings.Cut(f, ":")
				fmt.Sscanf(rest, "%d:%d", &tokens, &priority)
				r.enter(name, priority, tokens)
			}
			if got := r.serve(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if st := r.q.Stats(); st.Waiting != 0 || int(st.Placed) != len(strings.Fields(tc.in)) || len(r.q.lanes) != 0 {
				t.Errorf("%+v, %d lanes left", st, len(r.q.lanes))
			}
		})
	}
}

// TestQueue_fair: over a long time tenants that always wait get the same share of
// tokens, whatever the size of their requests.
func TestQueue_fair(t *testing.T) {
	r, rng := newRig(t), rand.New(rand.NewPCG(1, 2))
	sizes := map[string]int{"a": 200, "b": 3000, "c": 8192, "d": 60000}
	n, served := 0, map[string]int{}
	add := func(tenant string) {
		n++
		r.enter(fmt.Sprint(tenant, n), 0, 1+rng.IntN(2*sizes[tenant]))
	}
	for tenant := range sizes {
		for range 3 {
			add(tenant)
		}
	}
	for range 6000 {
		r.q.Wake("main")
		name := r.turns()
		w := r.w[name]
		served[name[:1]] += w.cost
		delete(r.w, name)
		add(name[:1]) // before it leaves: a tenant without waiters loses its deficit
		w.Leave(Placed, start)
		for next := r.turns(); next != ""; next = r.turns() {
			r.w[next].Again()
		}
	}
	least, most := served["a"], served["a"]
	for _, v := range served {
		least, most = min(least, v), max(most, v)
	}
	if most-least > 3*2*60000 { // a few of the largest requests
		t.Errorf("served tokens %v", served)
	}
}

// TestQueue_inVain: a waiter that finds no place keeps its position, and the next ones try.
func TestQueue_inVain(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a1", "b1", "a2", "c1"} {
		r.enter(name, 0, 100)
	}
	r.q.Wake("other")
	if got := r.turns(); got != "" {
		t.Errorf("%s has a turn from a place in a pool that no request waits for", got)
	}
	r.q.Wake("main")
	var tried []string
	for name := r.turns(); name != "c1"; name = r.turns() {
		tried = append(tried, name)
		r.w[name].Again()
	}
	r.w["c1"].Leave(Placed, start)
	delete(r.w, "c1")
	if got := strings.Join(tried, " "); got != "a1 a2 b1" {
		t.Errorf("tried %s", got)
	}
	if got := r.turns(); got != "" {
		t.Errorf("%s tries twice for one place", got)
	}
	if got := r.serve(); got != "a1 a2 b1" {
		t.Errorf("then %s", got)
	}
}

// TestQueue_Oldest: of the requests that wait for any of the pools.
func TestQueue_Oldest(t *testing.T) {
	var q Queue
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	oldest := func(want time.Duration, pools ...string) {
		t.Helper()
		if got := q.Oldest(pools, at(10)); got != want {
			t.Errorf("%v: %v, want %v", pools, got, want)
		}
	}
	oldest(0, "a")
	first := q.Enter(Want{Lane: "ab", Pools: []string{"a", "b"}, Tenant: "t"}, 9, at(1))
	q.Enter(Want{Lane: "ab", Pools: []string{"a", "b"}, Tenant: "u", Priority: 1}, 9, at(3))
	q.Enter(Want{Lane: "c", Pools: []string{"c"}, Tenant: "t"}, 9, at(5))
	oldest(9*time.Second, "b", "c")
	oldest(5*time.Second, "c")
	oldest(0, "d")
	first.Leave(Left, at(9))
	oldest(7*time.Second, "a")
}

// TestQueue_tries: a bounded number of waiters try for one place.
func TestQueue_tries(t *testing.T) {
	r := newRig(t)
	for i := range 30 {
		r.enter(fmt.Sprint("a", i), 0, 1)
	}
	r.q.Tick()
	n := 0
	for name := r.turns(); name != ""; name = r.turns() {
		if name != fmt.Sprint("a", n) {
			t.Fatalf("%s tries as number %d", name, n)
		}
		n++
		r.w[name].Again()
	}
	if n != maxTries {
		t.Errorf("%d tried, want %d", n, maxTries)
	}
}

// TestQueue_leave: whichever waiter leaves, and when, the others get their turns.
func TestQueue_leave(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a1", "a2", "a3", "a4", "b1"} {
		r.enter(name, 0, 8192)
	}
	leave := func(name string, how End) { r.w[name].Leave(how, start.Add(time.Second)); delete(r.w, name) }
	leave("a2", Left)
	r.q.Wake("main") // a1 has the turn and its time is over before it looks
	leave("a1", Expired)
	if got := r.turns(); got != "a3" {
		t.Fatalf("%q has the turn that a1 left, want a3", got)
	}
	r.w["a3"].Again()
	if got := r.turns(); got != "a4" {
		t.Fatalf("%q has the turn, want a4", got)
	}
	leave("b1", Left)
	leave("a4", Placed)
	if got := r.turns(); got != "" {
		t.Fatalf("%s has the turn that it had in vain", got)
	}
	if got := r.serve(); got != "a3" {
		t.Errorf("then %s, want a3", got)
	}
	st := r.q.Stats()
	if st.Waiting != 0 || st.Left != 2 || st.Expired != 1 || st.Placed != 2 || st.Waits.Count != 5 ||
		len(r.q.lanes) != 0 {
		t.Errorf("%+v, %d lanes", st, len(r.q.lanes))
	}
}

func TestQueue_bounds(t *testing.T) {
	var q Queue
	if q.Busy("main", 0) {
		t.Error("an empty queue is busy")
	}
	w := q.Enter(Want{Lane: "main", Priority: 3}, 1, start)
	if q.Enter(Want{Lane: "main"}, 1, start) != nil || q.Stats().Full != 1 {
		t.Error("more than the limit wait")
	}
	for priority, want := range map[int]bool{2: true, 3: true, 4: false} {
		if q.Busy("main", priority) != want {
			t.Errorf("priority %d: busy %v", priority, !want)
		}
	}
	if q.Busy("elsewhere", 0) {
		t.Error("another lane is busy")
	}
	w.Leave(Left, start)
	if q.Busy("main", 0) {
		t.Error("busy while empty")
	}
}

// TestQueue_stress: requests of many tenants wait for a few places; some leave
// before their turn. No place is taken twice, no turn is lost, and all end.
func TestQueue_stress(t *testing.T) {
	var q Queue
	var free, inside, placed atomic.Int64
	var entered atomic.Uint64
	const places = 3
	free.Store(places)
	take := func() bool {
		for n := free.Load(); n > 0; n = free.Load() {
			if free.CompareAndSwap(n, n-1) {
				return true
			}
		}
		return false
	}
	var wg sync.WaitGroup
	run := func(i int) {
		ok := !q.Busy("l", i%3) && take()
		if !ok {
			w := q.Enter(Want{Lane: "l", Pools: []string{"p"}, Tenant: fmt.Sprint(i % 5), Priority: i % 3,
				Tokens: i * 37 % 9000}, 500, start)
			if w == nil {
				return
			}
			entered.Add(1)
			late := time.After(time.Duration(i%7) * 3 * time.Millisecond)
			if i%7 > 0 {
				late = nil // it has time
			}
			for !ok {
				select {
				case <-w.Turn():
					if ok = take(); !ok {
						w.Again()
					}
				case <-late:
					w.Leave(Left, start)
					return
				}
			}
			w.Leave(Placed, start)
		}
		if inside.Add(1) > places {
			t.Error("more requests than places")
		}
		placed.Add(1)
		inside.Add(-1)
		free.Add(1)
		q.Wake("p")
	}
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				run(g*300 + i)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("a turn is lost: %+v", q.Stats())
	}
	if st := q.Stats(); st.Waiting != 0 || len(q.lanes) != 0 || entered.Load() != st.Placed+st.Left+st.Expired {
		t.Errorf("%+v, %d lanes", st, len(q.lanes))
	}
}
