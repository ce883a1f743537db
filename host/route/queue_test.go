package route

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/queue"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// rig is a router over three endpoints of one pool, with rules that can be swapped.
type rig struct {
	*Router
	store  *endpoint.Store
	state  *scheduler.State
	queue  queue.Queue
	queued scheduler.Queue // of the profile
	sched  atomic.Pointer[scheduler.Scheduler]
	number atomic.Uint64 // of the revision
	leases atomic.Int64  // not released
	reads  atomic.Int64  // of the clock
}

// now is a clock that no two reads of one goroutine find at the same time, so that a
// request that waited has waited for more than nothing.
func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.reads.Add(1))) }

// Acquire implements Rules.
func (r *rig) Acquire() Lease {
	r.leases.Add(1)
	return Lease{Scheduler: r.sched.Load(), Releaser: r}
}

// Release implements Releaser.
func (r *rig) Release() { r.leases.Add(-1) }

// Observe implements scheduler.Observer.
func (r *rig) Observe(o *scheduler.Observation) { r.queue.Wake(o.Pool) }

// allowAll is a policy that allows every request.
type allowAll struct{}

func (allowAll) Decide(*policy.Input) (*policy.Decision, error) {
	return &policy.Decision{Allow: true, Salt: "s"}, nil
}

// newRig makes endpoints with one place each.
func newRig(t *testing.T, q scheduler.Queue) *rig {
	t.Helper()
	r := &rig{store: endpoint.NewStore(), queued: q}
	for i := range 3 {
		addr := fmt.Sprintf("10.0.0.%d:8000", i)
		id, err := r.store.Add(endpoint.Info{URL: "http://" + addr, Addr: addr, Pool: "main", Dialect: "vllm"})
		if err != nil {
			t.Fatal(err)
		}
		r.store.Update(id, func(s *endpoint.State) { s.Ready, s.Trust = true, 1 })
	}
	r.state = scheduler.NewState(scheduler.StateConfig{Store: r.store, Observer: r})
	r.Router = New(Config{Rules: r, Queue: &r.queue, Now: r.now})
	r.setCap(t, 1)
	return r
}

// setCap swaps the rules for such as let an endpoint have n requests.
func (r *rig) setCap(t *testing.T, n int) {
	t.Helper()
	s, err := scheduler.New(scheduler.Config{State: r.state, Policy: allowAll{}, Revision: r.number.Add(1),
		Models:   []scheduler.Model{{Name: "m", Pools: []scheduler.PoolRef{{Pool: "main"}}}},
		Pools:    []scheduler.Pool{{Name: "main", MaxInflight: n}},
		Profiles: []scheduler.Profile{{Name: "default", Queue: r.queued}}})
	if err != nil {
		t.Fatal(err)
	}
	r.sched.Store(s)
}

// client is a request of a tenant.
type client struct {
	tenant string
	gone   <-chan struct{}
}

func (c client) Gone() <-chan struct{} { return c.gone }

func (c client) head(_ *proxy.Edge, req *scheduler.Request) (again bool, err error) {
	req.Principal = &identity.Principal{Tenant: c.tenant}
	return false, nil
}

type placing struct {
	p      *scheduler.Placement
	waited bool // for a turn, which it got
	err    error
}

// begin places a request of a tenant in the background.
func (r *rig) begin(t *testing.T, tenant, id string, gone <-chan struct{}) <-chan placing {
	t.Helper()
	api := new(llmapi.Request)
	if err := api.Scan(llmapi.OpChat, []byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)); err != nil {
		t.Fatal(err)
	}
	out := make(chan placing, 1)
	go func() {
		req := scheduler.Request{API: api, ID: id}
		p, err := r.place(client{tenant, gone}, &req)
		if err != nil {
			err = withWait(err, req.Queued)
		}
		out <- placing{p, req.Queued > 0, err}
	}()
	return out
}

// fill takes all places.
func (r *rig) fill(t *testing.T) (held []*scheduler.Placement) {
	t.Helper()
	for i := range 3 {
		x := <-r.begin(t, "local", fmt.Sprint("held-", i), nil)
		if x.err != nil {
			t.Fatal(x.err)
		}
		held = append(held, x.p)
	}
	return held
}

// awaitWaiting waits until n requests wait.
func (r *rig) awaitWaiting(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); r.queue.Stats().Waiting != n; {
		if time.Now().After(end) {
			t.Fatalf("%+v, want %d that wait", r.queue.Stats(), n)
		}
		time.Sleep(time.Millisecond)
	}
}

func done(p *scheduler.Placement) { p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete}) }

// TestQueue_placed: a request that finds every endpoint full waits, holds neither
// rules nor budget, and is decided anew when a place is free.
func TestQueue_placed(t *testing.T) {
	r := newRig(t, scheduler.Queue{Deadline: 20 * time.Second, Limit: 1000})
	held := r.fill(t)
	a := r.begin(t, "a", "a", nil)
	r.awaitWaiting(t, 1)
	if n := r.leases.Load(); n != 0 {
		t.Errorf("%d revisions are held by a request that waits", n)
	}
	r.setCap(t, 1)
	done(held[1])
	x := <-a
	if x.err != nil {
		t.Fatal(x.err)
	}
	e, ok := r.sched.Load().Explain("a", "a")
	if !ok || e.QueuedMillis <= 0 || !e.Allow || e.Revision != r.number.Load() {
		t.Errorf("got %+v", e)
	}
	if st := r.state.Stats(); st.Refused[llmapi.CodeOverCapacity.String()] != 0 {
		t.Errorf("waiting counts as a refusal: %v", st.Refused)
	}
	done(x.p)
	done(held[0])
	done(held[2])
	if st := r.queue.Stats(); st.Placed != 1 || st.Waiting != 0 || st.Waits.Count != 1 {
		t.Errorf("%+v", st)
	}
}

// TestQueue_ends: a request that cannot wait, or not any longer, is refused with
// Retry-After.
func TestQueue_ends(t *testing.T) {
	for name, tc := range map[string]struct {
		queue   scheduler.Queue
		message string
		waited  bool
	}{
		"off":      {scheduler.Queue{Limit: 1000}, "Every endpoint is at its limit of concurrent requests.", false},
		"deadline": {scheduler.Queue{Deadline: 30 * time.Millisecond, Limit: 1000}, "The request waited", true},
		"full":     {scheduler.Queue{Deadline: 30 * time.Second, Limit: 1}, "Every endpoint is at its limit", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tc.queue)
			held := r.fill(t)
			gone := make(chan struct{})
			if name == "full" {
				first := r.begin(t, "a", "first", gone)
				r.awaitWaiting(t, 1)
				defer func() { close(gone); <-first }()
			}
			x := <-r.begin(t, "a", "late", nil)
			if x.err == nil {
				t.Fatal("placed")
			}
			e, ok := errors.AsType[*llmapi.Error](x.err)
			if !ok || e.Status != 429 || e.Code != llmapi.CodeOverCapacity || e.RetryAfter != time.Second {
				t.Fatalf("got %#v", x.err)
			}
			if !strings.Contains(e.Message, tc.message) {
				t.Errorf("got %q, want %q", e.Message, tc.message)
			}
			if got := strings.Contains(x.err.Error(), "The request waited"); got != tc.waited {
				t.Errorf("got %v", x.err)
			}
			if st := r.state.Stats(); st.Refused[llmapi.CodeOverCapacity.String()] != 1 {
				t.Errorf("counted %v", st.Refused)
			}
			for _, p := range held {
				done(p)
			}
		})
	}
}

// TestQueue_clientLeaves: a client that goes leaves the queue; its turn is another's.
func TestQueue_clientLeaves(t *testing.T) {
	r := newRig(t, scheduler.Queue{Deadline: 20 * time.Second, Limit: 1000})
	held := r.fill(t)
	gone := make(chan struct{})
	a := r.begin(t, "a", "a", gone)
	r.awaitWaiting(t, 1)
	b := r.begin(t, "b", "b", nil)
	r.awaitWaiting(t, 2)
	close(gone)
	if x := <-a; !errors.Is(x.err, errLeft) {
		t.Errorf("got %v", x.err)
	}
	done(held[0])
	x := <-b
	if x.err != nil {
		t.Fatal(x.err)
	}
	if st := r.queue.Stats(); st.Left != 1 || st.Placed != 1 {
		t.Errorf("%+v", st)
	}
	done(x.p)
	done(held[1])
	done(held[2])
}

// TestQueue_order: no request overtakes those that wait, and a raised cap lets more in
// although no request has ended.
func TestQueue_order(t *testing.T) {
	r := newRig(t, scheduler.Queue{Deadline: 20 * time.Second, Limit: 1000})
	held := r.fill(t)
	first := r.begin(t, "a", "first", nil)
	r.awaitWaiting(t, 1)
	second := r.begin(t, "b", "second", nil)
	r.awaitWaiting(t, 2)
	done(held[0])
	x := <-first
	if x.err != nil {
		t.Fatal(x.err)
	}
	select {
	case <-second:
		t.Error("placed with no place free")
	default:
	}
	r.setCap(t, 2)
	r.queue.Tick() // housekeeping does, in a router that runs
	y := <-second
	if y.err != nil {
		t.Fatal(y.err)
	}
	done(x.p)
	done(y.p)
	done(held[1])
	done(held[2])
	// Others that wait in a lane are not overtaken although there is room.
	w := r.queue.Enter(queue.Want{Lane: "main", Pools: []string{"main"}, Tenant: "z"}, 10, time.Now())
	<-w.Turn()
	third := r.begin(t, "c", "third", nil)
	r.awaitWaiting(t, 2)
	w.Leave(queue.Placed, time.Now())
	z := <-third
	if z.err != nil {
		t.Fatal(z.err)
	}
	done(z.p)
}

// TestQueue_stress: many tenants, three places, clients that leave, reloads: every
// request comes to an end, which the queue counts once if it waited, never are there more
// than there are places, and in the end nothing is held.
func TestQueue_stress(t *testing.T) {
	r := newRig(t, scheduler.Queue{Deadline: 20 * time.Second, Limit: 1000})
	stop := make(chan struct{})
	var background, wg sync.WaitGroup
	background.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				r.queue.Tick()
				r.setCap(t, 1)
			}
		}
	})
	var mu sync.Mutex
	ends := map[string]uint64{}
	held := r.fill(t)
	const clients = 24
	for g := range clients {
		rng := rand.New(rand.NewPCG(uint64(g), 1))
		wg.Go(func() {
			for i := range 20 {
				gone := make(chan struct{})
				c := r.begin(t, fmt.Sprint("t", g%5), fmt.Sprint(g, "-", i), gone)
				if rng.IntN(6) == 0 {
					close(gone)
				}
				x := <-c
				end := "placed"
				if x.waited {
					end = "placed after a wait"
				}
				if x.err != nil {
					if end = "left"; !errors.Is(x.err, errLeft) {
						t.Errorf("%v", x.err)
					}
				} else {
					for _, l := range r.store.Load().Loads {
						if l != nil && l.Inflight() > 1 {
							t.Error("more requests than places")
						}
					}
					runtime.Gosched() // others find the place taken
					x.p.FirstToken()
					done(x.p)
				}
				mu.Lock()
				ends[end]++
				mu.Unlock()
			}
		})
	}
	r.awaitWaiting(t, clients)
	for _, p := range held {
		done(p)
	}
	wg.Wait()
	close(stop)
	background.Wait()
	// A wait is counted before its request goes on, so that the counts are final.
	st := r.queue.Stats()
	placed, waited, left := ends["placed"], ends["placed after a wait"], ends["left"]
	if placed+waited+left != clients*20 || waited < clients || left == 0 {
		t.Errorf("requests ended %v", ends)
	}
	if st.Waiting != 0 || st.Placed != waited || st.Left != left || st.Waits.Count != waited+left ||
		st.Expired+st.Full+st.Slow != 0 {
		t.Errorf("requests ended %v, the queue counts %+v", ends, st)
	}
	if n := r.leases.Load(); n != 0 {
		t.Errorf("%d revisions are held", n)
	}
	for i, l := range r.store.Load().Loads {
		if l != nil && l.Inflight() != 0 {
			t.Errorf("endpoint %d has %d requests", i, l.Inflight())
		}
	}
}
