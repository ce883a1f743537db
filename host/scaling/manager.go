package scaling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// DefaultEvery is the period of the controllers.
const DefaultEvery = 5 * time.Second

// Errors of Manager.Notice.
var (
	// ErrNotScaled is wrapped for a pool that is not scaled.
	ErrNotScaled = errors.New("scaling: pool is not scaled")
	// ErrNoEndpoint is wrapped for an endpoint that the pool does not have.
	ErrNoEndpoint = errors.New("scaling: no such endpoint")
)

// Machines keeps the machines that drivers make as endpoints; fleet.Fleet is one.
type Machines interface {
	AddMachines(pool string, machines []autoscale.Machine) error
	RemoveMachine(pool, id string)
	// MachineNames returns the drivers' names of a pool's machines, by URL.
	MachineNames(pool string) map[string]string
}

// Admission decides which machines may join a pool; fleet.Admission is one.
type Admission interface {
	Admit(p *config.Pool, url string) error
}

// Config is what a Manager is made of. All fields but Every are required.
type Config struct {
	Store     *endpoint.Store
	Machines  Machines
	Admission Admission
	// Sessions returns how many sessions each endpoint has, by its epoch.
	Sessions func() map[uint32]int
	// QueueWait returns how long the request that waits longest for a place on the
	// pools has waited.
	QueueWait func(pools []string, now time.Time) time.Duration
	// Override returns what proposes the size of a pool instead of the built-in loop,
	// nil = nothing, and whether it is only compared.
	Override func(pool string) (o autoscale.Overrider, shadow bool)
	// Audit is called for each action of a controller, except in a dry run.
	Audit func(autoscale.Action)
	Every time.Duration // period of the controllers, 0 = DefaultEvery
	Log   *slog.Logger
	Now   func() time.Time
}

// Manager owns the controllers, one for each pool that scales together with those
// that overflow from it. All methods may be called concurrently; Run once.
type Manager struct {
	cfg  Config
	work *Meter
	room *Room
	now  chan struct{} // 1: a tick is due before its time

	plan  atomic.Pointer[Plan]              // in force, never nil
	state atomic.Pointer[map[string]string] // capacity by model, of those whose capacity is not ok

	ticking sync.Mutex // held through a tick, and while controllers change; before mu
	fence   uint64     // of the last controller; guarded by ticking

	mu      sync.Mutex // guards what follows
	groups  []*group
	retired []*group // that ended and whose drivers are still being called; guarded by ticking too
}

// group is one controller and what it was made from.
type group struct {
	plan    groupPlan
	pools   []string
	control *autoscale.Controller
	nodes   *nodes
}

// New returns a manager that scales nothing. It starts no goroutine.
func New(cfg Config) *Manager {
	if cfg.Every == 0 {
		cfg.Every = DefaultEvery
	}
	m := &Manager{cfg: cfg, work: newMeter(), now: make(chan struct{}, 1)}
	m.room = newRoom(m)
	m.plan.Store(&Plan{cfg: &config.Config{}})
	return m
}

// Work returns the meter of offered work.
func (m *Manager) Work() *Meter { return m.work }

// Room returns where requests wait for the first endpoint of a pool.
func (m *Manager) Room() *Room { return m.room }

// Run ticks the controllers until ctx ends, and waits for the drivers' calls.
func (m *Manager) Run(ctx context.Context) error {
	t := time.NewTicker(m.cfg.Every)
	defer t.Stop()
	defer m.wait()
	for {
		m.tick(ctx)
		select {
		case <-t.C:
		case <-m.now:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake makes the next tick come at once.
func (m *Manager) wake() {
	select {
	case m.now <- struct{}{}:
	default:
	}
}

func (m *Manager) wait() {
	m.mu.Lock()
	all := slices.Concat(m.groups, m.retired)
	m.mu.Unlock()
	for _, g := range all {
		g.control.Wait()
	}
}

func (m *Manager) all() []*group {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.groups)
}

func (m *Manager) tick(ctx context.Context) {
	m.ticking.Lock()
	defer m.ticking.Unlock()
	now := m.cfg.Now()
	m.retire(now)
	for _, g := range m.all() {
		if m.inherits(g) {
			continue
		}
		sig := m.work.signal(m.cfg.Store.Load(), g.pools, now)
		waiting, longest := m.room.waiting(g.pools, now)
		sig.InFlight += waiting
		sig.Requests += waiting
		sig.QueueWait = max(longest, m.cfg.QueueWait(g.pools, now))
		g.control.SetOverride(m.cfg.Override(g.pools[0]))
		g.control.Tick(ctx, sig)
	}
	m.publish()
}

// retire drops the controllers of earlier plans once their drivers' calls have
// ended, and handles the results of those. The caller holds ticking.
func (m *Manager) retire(now time.Time) {
	m.mu.Lock()
	all := m.retired
	m.mu.Unlock()
	var busy []*group
	for _, g := range all {
		if !g.control.Retire(now) {
			busy = append(busy, g)
		}
	}
	m.mu.Lock()
	m.retired = busy
	m.mu.Unlock()
}

// inherits reports whether a driver of the group's pools is still being called for
// an earlier plan: which machines exist is not known before that call has ended. The
// caller holds ticking.
func (m *Manager) inherits(g *group) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.retired, func(old *group) bool {
		return slices.ContainsFunc(old.pools, func(p string) bool { return slices.Contains(g.pools, p) })
	})
}

// publish makes the capacity of the models visible to Capacity.
func (m *Manager) publish() {
	bad := map[string]string{}
	cfg := m.plan.Load().cfg
	for _, g := range m.all() {
		state := g.control.Status().Capacity
		if state == autoscale.CapacityOK {
			continue
		}
		for i := range cfg.Models {
			for _, p := range cfg.Models[i].Pools {
				if slices.Contains(g.pools, p.Name) {
					bad[cfg.Models[i].Name] = state
				}
			}
		}
	}
	m.state.Store(&bad)
}

// Capacity returns the capacity of a model's pools as policies see it, one of the
// Capacity values of package autoscale.
func (m *Manager) Capacity(model string) string {
	if states := m.state.Load(); states != nil {
		if state, bad := (*states)[model]; bad {
			return state
		}
	}
	return autoscale.CapacityOK
}

// Statuses returns the status of each controller.
func (m *Manager) Statuses() []autoscale.Status {
	out := []autoscale.Status{}
	for _, g := range m.all() {
		out = append(out, g.control.Status())
	}
	return out
}

// Notice announces to the controller of a pool that an endpoint, given by the driver's
// name or its URL, will be taken away at the deadline. Its errors wrap
// ErrNotScaled or ErrNoEndpoint.
func (m *Manager) Notice(pool, id string, deadline time.Time) error {
	for _, g := range m.all() {
		if !slices.Contains(g.pools, pool) {
			continue
		}
		name, ok := g.nodes.nameOf(pool, id)
		if !ok {
			return fmt.Errorf("%w: pool %q, endpoint %q (kvasir autoscale --output json lists them)", ErrNoEndpoint, pool, id)
		}
		g.control.Notice(pool, name, deadline)
		return nil
	}
	return fmt.Errorf("%w: %q", ErrNotScaled, pool)
}
