package scaling

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Room lets requests wait for the first endpoint of a pool that has none and is
// scaled: the controller counts them as demand. It is bounded per pool, and no tenant
// may have more than half of it. All methods may be called concurrently.
type Room struct {
	m *Manager

	mu      sync.Mutex             // guards what follows
	pools   map[string][]time.Time // by pool: since when each request waits, the oldest first
	tenants map[roomTenant]int     // requests that wait
	held    uint64                 // requests that ever waited
	refused uint64
}

type roomTenant struct{ pool, tenant string }

// lookEvery is how often a waiting request looks for an endpoint.
const lookEvery = 50 * time.Millisecond

// ErrRoomFull is returned by Room.Enter when too many requests wait already.
var ErrRoomFull = errors.New("scaling: too many requests wait for the pool's first endpoint")

// Seat is a request's place in a Room. Await must be called once.
type Seat struct {
	room   *Room
	tenant roomTenant
	since  time.Time
	model  string

	// ColdStart is how long the endpoint is expected to take.
	ColdStart time.Duration
	// MaxHold bounds Await.
	MaxHold time.Duration
}

func newRoom(m *Manager) *Room {
	return &Room{m: m, pools: map[string][]time.Time{}, tenants: map[roomTenant]int{}}
}

// Enter adds a request of a tenant for a model that no endpoint serves, and wakes the
// controllers. It returns a nil Seat without an error if no pool of the model is
// scaled or an endpoint serves, and ErrRoomFull with a Seat that has only its times
// if too many requests wait.
func (r *Room) Enter(model, tenant string) (*Seat, error) {
	pool := r.poolFor(model)
	if pool == nil {
		return nil, nil
	}
	a := &pool.Autoscale
	s := &Seat{room: r, tenant: roomTenant{pool.Name, tenant}, since: r.m.cfg.Now(), model: model,
		ColdStart: time.Duration(a.ColdStart), MaxHold: time.Duration(a.MaxHold)}
	if !r.enter(s.tenant, a.MaxHeld, s.since) {
		return s, ErrRoomFull
	}
	r.m.wake()
	return s, nil
}

// Await returns true once an endpoint of the model is ready; false if none was
// within MaxHold, or when gone is closed. It gives the seat up.
func (s *Seat) Await(gone <-chan struct{}) bool {
	defer s.room.leave(s.tenant, s.since)
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	late := time.NewTimer(s.MaxHold)
	defer late.Stop()
	for {
		select {
		case <-gone:
			return false
		case <-late.C:
			return false
		case <-t.C:
		}
		if s.room.serves(s.model) {
			return true
		}
	}
}

// waiting returns how many requests wait for endpoints of the pools, and for how
// long the first of them has.
func (r *Room) waiting(pools []string, now time.Time) (n int, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range pools {
		if since := r.pools[p]; len(since) > 0 {
			n += len(since)
			longest = max(longest, now.Sub(since[0]))
		}
	}
	return n, longest
}

// poolFor returns the pool whose controller will order an endpoint for a model, nil
// if the model has endpoints or none of its pools is scaled.
func (r *Room) poolFor(model string) *config.Pool {
	if r.serves(model) {
		return nil
	}
	cfg := r.m.plan.Load().cfg
	named := func(name string) int {
		return slices.IndexFunc(cfg.Pools, func(p config.Pool) bool { return p.Name == name })
	}
	for _, name := range modelPools(cfg, model) {
		i := named(name)
		if i < 0 || !cfg.Pools[i].Autoscale.On() || cfg.Pools[i].Autoscale.DryRun {
			continue
		}
		if over := cfg.Pools[i].Autoscale.OverflowOf; over != "" {
			if j := named(over); j >= 0 {
				i = j
			}
		}
		return &cfg.Pools[i]
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
func (r *Room) serves(model string) bool {
	pools := modelPools(r.m.plan.Load().cfg, model)
	snap := r.m.cfg.Store.Load()
	for id := range snap.N {
		if info := snap.Info(endpoint.ID(id)); info != nil && snap.Ready.Has(endpoint.ID(id)) &&
			slices.Contains(pools, info.Pool) {
			return true
		}
	}
	return false
}

func (r *Room) enter(t roomTenant, most int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pools[t.pool]) >= most || r.tenants[t] >= max(1, most/2) {
		r.refused++
		return false
	}
	r.pools[t.pool] = append(r.pools[t.pool], now)
	r.tenants[t]++
	r.held++
	return true
}

func (r *Room) leave(t roomTenant, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.pools[t.pool], since)
	if r.pools[t.pool] = slices.Delete(r.pools[t.pool], i, i+1); len(r.pools[t.pool]) == 0 {
		delete(r.pools, t.pool)
	}
	if r.tenants[t]--; r.tenants[t] == 0 {
		delete(r.tenants, t)
	}
}
