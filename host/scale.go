package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
)

// scaleEvery is the period of the autoscaler.
const scaleEvery = 5 * time.Second

// scaling owns the autoscaler's controllers, one for each pool that scales
// together with those that overflow from it.
type scaling struct {
	h     *Host
	every time.Duration
	work  *workMeter
	now   chan struct{} // 1: a tick is due before its time

	state atomic.Pointer[map[string]string] // how the models' pools are off, of those that are not well

	ticking sync.Mutex // held through a tick, and while controllers change; before mu
	fence   uint64     // of the last controller; guarded by ticking

	mu      sync.Mutex // guards what follows
	groups  []*scaleGroup
	retired []*scaleGroup // whose drivers are still being called; guarded by ticking too
}

// scaleGroup is one controller and what it was made from.
type scaleGroup struct {
	pools   []string
	cfg     []config.Pool
	control *autoscale.Controller
	fleet   *scaleFleet
}

func newScaling(h *Host) *scaling {
	every := scaleEvery
	if h.opt.ScaleEvery > 0 {
		every = h.opt.ScaleEvery
	}
	return &scaling{h: h, every: every, work: newWorkMeter(), now: make(chan struct{}, 1)}
}

// run ticks the controllers until ctx ends, and waits for the drivers' calls.
func (s *scaling) run(ctx context.Context) error {
	t := time.NewTicker(s.every)
	defer t.Stop()
	defer s.wait()
	for {
		s.tick(ctx)
		select {
		case <-t.C:
		case <-s.now:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// poke makes the next tick come at once: somebody waits.
func (s *scaling) poke() {
	select {
	case s.now <- struct{}{}:
	default:
	}
}

func (s *scaling) wait() {
	s.mu.Lock()
	all := slices.Concat(s.groups, s.retired)
	s.mu.Unlock()
	for _, g := range all {
		g.control.Wait()
	}
}

func (s *scaling) all() []*scaleGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.groups)
}

func (s *scaling) tick(ctx context.Context) {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	now := s.h.now()
	s.retire(now)
	for _, g := range s.all() {
		if s.inherits(g) {
			continue
		}
		sig := s.work.signal(s.h, g.pools, now)
		held := s.h.room.waiting(g.pools)
		sig.InFlight += held
		sig.Requests += held
		g.control.SetOverride(s.h.plugins.Sizer(g.pools[0]))
		g.control.Tick(ctx, sig)
	}
	s.tell()
}

// retire forgets the controllers of rules that are gone once their drivers'
// calls have ended, and takes in what those did. The caller holds ticking.
func (s *scaling) retire(now time.Time) {
	s.mu.Lock()
	all := s.retired
	s.mu.Unlock()
	var busy []*scaleGroup
	for _, g := range all {
		if !g.control.Retire(now) {
			busy = append(busy, g)
		}
	}
	s.mu.Lock()
	s.retired = busy
	s.mu.Unlock()
}

// inherits reports whether a driver of the group's pools is still being called for
// rules that are gone: what exists is not known before that has ended. The
// caller holds ticking.
func (s *scaling) inherits(g *scaleGroup) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.retired, func(old *scaleGroup) bool {
		return slices.ContainsFunc(old.pools, func(p string) bool { return slices.Contains(g.pools, p) })
	})
}

// tell publishes how the models' pools are off.
func (s *scaling) tell() {
	bad := map[string]string{}
	l := s.h.rules.Acquire()
	defer l.Release()
	cfg := l.Value().cfg
	for _, g := range s.all() {
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
	s.state.Store(&bad)
}

// capacity is what policies see of a model's pools.
func (s *scaling) capacity(model string) string {
	if m := s.state.Load(); m != nil {
		if state, bad := (*m)[model]; bad {
			return state
		}
	}
	return autoscale.CapacityOK
}

// adopt makes the controllers those of the pools of cfg. A group whose pools did
// not change keeps its history; others begin with the endpoints there are.
func (s *scaling) adopt(cfg *config.Config) error {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	var next, gone []*scaleGroup
	old := s.all()
	for _, pools := range scaleGroups(cfg) {
		g := findGroup(old, pools)
		if g == nil {
			var err error
			if g, err = s.build(pools); err != nil {
				return err
			}
		}
		next = append(next, g)
	}
	for _, g := range old {
		if findGroup(next, g.cfg) == nil {
			g.fleet.release()
			s.work.leave(g.pools)
			gone = append(gone, g)
		}
	}
	s.mu.Lock()
	s.groups, s.retired = next, append(s.retired, gone...)
	s.mu.Unlock()
	return nil
}

// scaleGroups lists the pools that scale, each with its overflows behind it.
func scaleGroups(cfg *config.Config) [][]config.Pool {
	var out [][]config.Pool
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		if !p.Autoscale.On() || p.Autoscale.OverflowOf != "" {
			continue
		}
		g := []config.Pool{*p}
		for j := range cfg.Pools {
			if cfg.Pools[j].Autoscale.OverflowOf == p.Name {
				g = append(g, cfg.Pools[j])
			}
		}
		out = append(out, g)
	}
	return out
}

func findGroup(l []*scaleGroup, pools []config.Pool) *scaleGroup {
	for _, g := range l {
		if reflect.DeepEqual(withoutPlugin(g.cfg), withoutPlugin(pools)) {
			return g
		}
	}
	return nil
}

// withoutPlugin leaves out what a tick looks up: a plugin comes and goes without a
// new controller.
func withoutPlugin(pools []config.Pool) []config.Pool {
	out := slices.Clone(pools)
	for i := range out {
		out[i].Autoscale.Plugin, out[i].Autoscale.Shadow = "", false
	}
	return out
}

func (s *scaling) build(pools []config.Pool) (*scaleGroup, error) {
	s.fence = max(s.fence+1, uint64(s.h.now().UnixMilli())) // its keys are new, whatever was ordered before
	g := &scaleGroup{cfg: pools, fleet: newScaleFleet(s.h, pools)}
	ag := autoscale.Group{Fleet: g.fleet, Log: s.h.log, Fence: s.fence, Audit: s.audit}
	for i := range pools {
		p := &pools[i]
		d, err := scaleDriver(&p.Autoscale.Driver)
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", p.Name, err)
		}
		g.pools = append(g.pools, p.Name)
		ag.Pools = append(ag.Pools, autoscale.Pool{Name: p.Name, Config: scaleConfig(&p.Autoscale), Driver: d, Price: p.Price, Spot: p.Spot})
	}
	var err error
	g.control, err = autoscale.New(ag, s.h.now())
	return g, err
}

func scaleConfig(a *config.Autoscale) autoscale.Config {
	return autoscale.Config{
		Min: a.Min, Max: a.Max, Target: a.Target, Window: time.Duration(a.Window), IdleAfter: time.Duration(a.IdleAfter), ColdStart: time.Duration(a.ColdStart),
		DrainTimeout: time.Duration(a.DrainTimeout), DriverTimeout: time.Duration(a.Driver.Timeout), DryRun: a.DryRun, WarmTimeout: time.Duration(a.WarmTimeout),
	}
}

// scaleDriver returns the configured driver, nil if there is none.
func scaleDriver(d *config.Driver) (autoscale.Driver, error) {
	switch {
	case len(d.Command) > 0:
		return &autoscale.Command{Argv: d.Command}, nil
	case d.Webhook.URL != "":
		b, err := os.ReadFile(d.Webhook.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("host: webhook secret: %w", err)
		}
		secret := strings.TrimSpace(string(b))
		if len(secret) < 16 {
			return nil, errors.New("host: webhook secret: want at least 16 characters")
		}
		return &autoscale.Webhook{URL: d.Webhook.URL, Secret: []byte(secret)}, nil
	}
	return nil, nil
}

// audit writes what the autoscaler did to the audit log.
func (s *scaling) audit(a autoscale.Action) {
	if a.DryRun {
		return
	}
	result := error(nil)
	if a.Verb == autoscale.VerbDriver || a.Verb == autoscale.VerbExpire || a.Verb == autoscale.VerbOverride {
		result = errors.New(a.Reason)
	}
	s.h.note("autoscale:"+a.Verb, "pool/"+a.Pool, result, "n", fmt.Sprint(a.N), "endpoints", strings.Join(a.IDs, " "), "reason", a.Reason, "key", a.Key)
}

// statuses is what `kvasir autoscale` shows.
func (s *scaling) statuses() []autoscale.Status {
	out := []autoscale.Status{}
	for _, g := range s.all() {
		out = append(out, g.control.Status())
	}
	return out
}

// notice tells the controller of a pool that an endpoint will be taken away.
func (s *scaling) notice(pool, id string, deadline time.Time) error {
	for _, g := range s.all() {
		if !slices.Contains(g.pools, pool) {
			continue
		}
		name, ok := g.fleet.nameOf(pool, id)
		if !ok {
			return fmt.Errorf("host: pool %q has no endpoint %q (kvasir autoscale --output json lists them)", pool, id)
		}
		g.control.Notice(pool, name, deadline)
		return nil
	}
	return fmt.Errorf("host: pool %q is not scaled", pool)
}
