package host

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/proxy"
)

// waitingRoom holds requests for pools that have no endpoint and will have one:
// the autoscaler sees them, and orders. It is bounded per pool, and no tenant
// takes more than half of it.
type waitingRoom struct {
	h *Host

	mu      sync.Mutex // guards what follows
	pools   map[string]int
	tenants map[roomSeat]int
	held    uint64 // requests that ever waited
	refused uint64
}

type roomSeat struct{ pool, tenant string }

// lookEvery is how often who waits looks for an endpoint.
const lookEvery = 50 * time.Millisecond

func newWaitingRoom(h *Host) *waitingRoom {
	return &waitingRoom{h: h, pools: map[string]int{}, tenants: map[roomSeat]int{}}
}

// waiting returns how many requests wait for endpoints of the pools.
func (w *waitingRoom) waiting(pools []string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range pools {
		n += w.pools[p]
	}
	return n
}

// hold takes in a request that was denied with why. It returns what the proxy is to
// do: wait (a *proxy.Held, whose Wait gives the seat back), tell why since nothing
// will come, or tell that there is no room.
func (w *waitingRoom) hold(r *proxy.Request, why error) error {
	pool := w.poolFor(r.API.Model)
	if pool == nil {
		return why
	}
	seat := roomSeat{pool: pool.Name}
	if r.Principal != nil {
		seat.tenant = r.Principal.Tenant
	}
	if !w.enter(seat, pool.Autoscale.MaxHeld) {
		return &proxy.Refusal{Status: http.StatusTooManyRequests, Code: "waiting_room_full",
			Message: "too many requests wait for the model to be started", RetryAfter: time.Duration(pool.Autoscale.ColdStart)}
	}
	w.h.scaling.poke()
	most, cold := time.Duration(pool.Autoscale.MaxHold), time.Duration(pool.Autoscale.ColdStart)
	return &proxy.Held{Wait: func(r *proxy.Request) (proxy.Placement, error) {
		defer w.leave(seat)
		if !w.await(r, most) {
			return nil, &proxy.Refusal{Status: http.StatusServiceUnavailable, Code: "model_not_started",
				Message: fmt.Sprintf("the model was not started within %v; try again later", most), RetryAfter: cold}
		}
		p, err := w.h.schedule(r)
		if err != nil {
			return nil, refusal(err)
		}
		return p, nil
	}}
}

// await waits for an endpoint of r's model; false if none came within most or the
// client left.
func (w *waitingRoom) await(r *proxy.Request, most time.Duration) bool {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	late := time.NewTimer(most)
	defer late.Stop()
	for left := r.Gone(); ; {
		select {
		case <-left:
			return false
		case <-late.C:
			return false
		case <-t.C:
		}
		if w.serves(r.API.Model) {
			return true
		}
	}
}

// poolFor returns the pool that is to get an endpoint for a model, nil if the
// model has endpoints or none of its pools scales.
func (w *waitingRoom) poolFor(model string) *config.Pool {
	if w.serves(model) {
		return nil
	}
	l := w.h.rules.Acquire()
	defer l.Release()
	cfg := l.Value().cfg
	for _, name := range modelPools(cfg, model) {
		i := slices.IndexFunc(cfg.Pools, func(p config.Pool) bool { return p.Name == name })
		if i < 0 || !cfg.Pools[i].Autoscale.On() || cfg.Pools[i].Autoscale.DryRun {
			continue
		}
		p := cfg.Pools[i]
		if over := p.Autoscale.OverflowOf; over != "" {
			if j := slices.IndexFunc(cfg.Pools, func(p config.Pool) bool { return p.Name == over }); j >= 0 {
				p = cfg.Pools[j]
			}
		}
		return &p
	}
	return nil
}

// modelPools names the pools of a model, by its name or an alias.
func modelPools(cfg *config.Config, model string) []string {
	var out []string
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if m.Name == model || slices.Contains(m.Aliases, model) {
			for _, p := range m.Pools {
				out = append(out, p.Name)
			}
		}
	}
	return out
}

// serves reports whether an endpoint of the model's pools is ready.
func (w *waitingRoom) serves(model string) bool {
	l := w.h.rules.Acquire()
	pools := modelPools(l.Value().cfg, model)
	l.Release()
	snap := w.h.store.Load()
	for id := range snap.N {
		if info := snap.Info(endpoint.ID(id)); info != nil && snap.Ready.Has(endpoint.ID(id)) && slices.Contains(pools, info.Pool) {
			return true
		}
	}
	return false
}

func (w *waitingRoom) enter(s roomSeat, most int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pools[s.pool] >= most || w.tenants[s] >= max(1, most/2) {
		w.refused++
		return false
	}
	w.pools[s.pool]++
	w.tenants[s]++
	w.held++
	return true
}

func (w *waitingRoom) leave(s roomSeat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pools[s.pool]--; w.pools[s.pool] == 0 {
		delete(w.pools, s.pool)
	}
	if w.tenants[s]--; w.tenants[s] == 0 {
		delete(w.tenants, s)
	}
}
