package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/queue"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// queueHost builds a router over three endpoints with one place each.
func queueHost(t *testing.T, profile string) *Host {
	t.Helper()
	h, _ := startHost(t, t.TempDir(), "profiles: [{name: d, holdout: 0, "+profile+"}]\n")
	setCap(t, h, 1)
	return h
}

// setCap reloads with a cap of requests.
func setCap(t *testing.T, h *Host, n int) {
	t.Helper()
	s, err := os.ReadFile(h.cfg.File)
	if err != nil {
		t.Fatal(err)
	}
	text := string(s)
	if i := strings.Index(text, "capacity: {"); i >= 0 {
		text = text[:i] + text[i+strings.Index(text[i:], "}, ")+3:]
	}
	save(t, h.cfg.File, strings.Replace(text, "{name: main, ", fmt.Sprintf("{name: main, capacity: {max_inflight: %d}, ", n), 1))
	if _, err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	for i := range h.store.Load().N { // the pool may be another one
		h.store.Update(endpoint.ID(i), func(s *endpoint.State) { s.Ready, s.Trust = true, 1 })
	}
}

type placing struct {
	p   *scheduler.Placement
	err error
}

// client is a caller of one tenant.
type client struct {
	tenant string
	gone   <-chan struct{}
}

func (c *client) Gone() <-chan struct{} { return c.gone }

func (c *client) head(_ *proxy.Edge, req *scheduler.Request) (again bool, err error) {
	req.Principal = &identity.Principal{Tenant: c.tenant}
	return false, nil
}

// begin places a request of a tenant in the background.
func begin(t *testing.T, h *Host, tenant, id string, gone <-chan struct{}) <-chan placing {
	t.Helper()
	api := new(llmapi.Request)
	if err := api.Scan(llmapi.OpChat, []byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)); err != nil {
		t.Fatal(err)
	}
	out := make(chan placing, 1)
	go func() {
		req := scheduler.Request{API: api, ID: id}
		p, err := h.place(&client{tenant, gone}, &req)
		if err != nil {
			err = tellWait(err, req.Queued)
		}
		out <- placing{p, err}
	}()
	return out
}

// fill takes all places.
func (h *Host) fill(t *testing.T) (held []*scheduler.Placement) {
	t.Helper()
	for i := range 3 {
		x := <-begin(t, h, "local", fmt.Sprint("held-", i), nil)
		if x.err != nil {
			t.Fatal(x.err)
		}
		held = append(held, x.p)
	}
	return held
}

// awaitWaiting waits until n requests wait.
func (h *Host) awaitWaiting(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); h.queue.Stats().Waiting != n; {
		if time.Now().After(end) {
			t.Fatalf("%+v, want %d that wait", h.queue.Stats(), n)
		}
		time.Sleep(time.Millisecond)
	}
}

func done(p *scheduler.Placement) { p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete}) }

// TestQueue_placed: a request that finds every endpoint full waits, holds neither
// rules nor budget, and is decided anew when a place is free.
func TestQueue_placed(t *testing.T) {
	h := queueHost(t, "queue: {deadline: 20s}")
	held := h.fill(t)
	a := begin(t, h, "a", "a", nil)
	h.awaitWaiting(t, 1)
	if _, err := h.Reload(); err != nil { // nothing holds the rules before
		t.Fatal(err)
	}
	done(held[1])
	x := <-a
	if x.err != nil {
		t.Fatal(x.err)
	}
	l := h.rules.Acquire()
	defer l.Release()
	e, ok := l.Value().scheduler.Explain("a", "a")
	if !ok || e.QueuedMillis <= 0 || !e.Allow || e.Generation != l.Value().number {
		t.Errorf("got %+v", e)
	}
	if st := h.state.Stats(); st.Refused[llmapi.CodeOverCapacity.String()] != 0 {
		t.Errorf("waiting counts as a refusal: %v", st.Refused)
	}
	done(x.p)
	done(held[0])
	done(held[2])
	if st := h.queue.Stats(); st.Placed != 1 || st.Entered != 1 || st.Waiting != 0 || st.Waits.Count != 1 {
		t.Errorf("%+v", st)
	}
}

// TestQueue_ends: whoever cannot wait, or not any longer, is told to come again.
func TestQueue_ends(t *testing.T) {
	for name, tc := range map[string]struct {
		profile, message string
		waited           bool
	}{
		"off":      {"queue: {deadline: 0s}", "every endpoint is at its limit of concurrent requests", false},
		"deadline": {"queue: {deadline: 30ms}", " s for a place", true},
		"full":     {"queue: {max_waiting: 1}", "every endpoint is at its limit", false},
	} {
		t.Run(name, func(t *testing.T) {
			h := queueHost(t, tc.profile)
			held := h.fill(t)
			gone := make(chan struct{})
			if name == "full" {
				first := begin(t, h, "a", "first", gone)
				h.awaitWaiting(t, 1)
				defer func() { close(gone); <-first }()
			}
			x := <-begin(t, h, "a", "late", nil)
			if x.err == nil {
				t.Fatal("placed")
			}
			r, ok := errors.AsType[*llmapi.Error](x.err)
			if !ok || r.Status != 429 || r.Code != llmapi.CodeOverCapacity || r.RetryAfter != time.Second {
				t.Fatalf("got %#v", x.err)
			}
			demands(t, "answer", r.Message, tc.message)
			if got := strings.Contains(x.err.Error(), "it waited"); got != tc.waited {
				t.Errorf("got %v", x.err)
			}
			if st := h.state.Stats(); st.Refused[llmapi.CodeOverCapacity.String()] != 1 {
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
	h := queueHost(t, "queue: {deadline: 20s}")
	held := h.fill(t)
	gone := make(chan struct{})
	a := begin(t, h, "a", "a", gone)
	h.awaitWaiting(t, 1)
	b := begin(t, h, "b", "b", nil)
	h.awaitWaiting(t, 2)
	close(gone)
	if x := <-a; !errors.Is(x.err, errLeft) {
		t.Errorf("got %v", x.err)
	}
	done(held[0])
	x := <-b
	if x.err != nil {
		t.Fatal(x.err)
	}
	if st := h.queue.Stats(); st.Left != 1 || st.Placed != 1 {
		t.Errorf("%+v", st)
	}
	done(x.p)
	done(held[1])
	done(held[2])
}

// TestQueue_order: nobody overtakes those who wait, and a raised cap lets more in
// without the end of a request.
func TestQueue_order(t *testing.T) {
	h := queueHost(t, "queue: {deadline: 20s}")
	held := h.fill(t)
	first := begin(t, h, "a", "first", nil)
	h.awaitWaiting(t, 1)
	second := begin(t, h, "b", "second", nil)
	h.awaitWaiting(t, 2)
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
	setCap(t, h, 2)
	h.queue.Tick() // housekeeping does, in a router that runs
	y := <-second
	if y.err != nil {
		t.Fatal(y.err)
	}
	done(x.p)
	done(y.p)
	done(held[1])
	done(held[2])
	// Others that wait in a lane are not overtaken although there is room.
	w := h.queue.Enter(queue.Want{Lane: "main", Pools: []string{"main"}, Tenant: "z"}, 10, time.Now())
	<-w.Turn()
	third := begin(t, h, "c", "third", nil)
	h.awaitWaiting(t, 2)
	w.Leave(queue.Placed, time.Now())
	z := <-third
	if z.err != nil {
		t.Fatal(z.err)
	}
	done(z.p)
}

// TestQueue_hammer: many tenants, three places, clients that leave, reloads: every
// request comes to an end, and never are there more than there are places.
func TestQueue_hammer(t *testing.T) {
	h := queueHost(t, "queue: {deadline: 20s}")
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
				h.queue.Tick()
				if _, err := h.Reload(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	var mu sync.Mutex
	ends := map[string]int{}
	for g := range 24 {
		rng := rand.New(rand.NewPCG(uint64(g), 1))
		wg.Go(func() {
			for i := range 20 {
				gone := make(chan struct{})
				c := begin(t, h, fmt.Sprint("t", g%5), fmt.Sprint(g, "-", i), gone)
				if rng.IntN(6) == 0 {
					close(gone)
				}
				x := <-c
				end := "placed"
				if x.err != nil {
					if end = "left"; !errors.Is(x.err, errLeft) {
						t.Errorf("%v", x.err)
					}
				} else {
					for _, l := range h.store.Load().Loads {
						if l != nil && l.Inflight() > 1 {
							t.Error("more requests than places")
						}
					}
					x.p.FirstToken()
					done(x.p)
				}
				mu.Lock()
				ends[end]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	close(stop)
	background.Wait()
	st := h.queue.Stats()
	t.Logf("%v, %+v", ends, st)
	if st.Waiting != 0 || ends["placed"]+ends["left"] != 24*20 || ends["placed"] < 200 || st.Entered != st.Placed+st.Left {
		t.Errorf("%v, %+v", ends, st)
	}
}
