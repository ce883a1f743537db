package scaling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// randomPlan scales some of three pools, in one of a few ways.
func randomPlan(t *testing.T, r *rand.Rand) *Plan {
	cfg := &config.Config{}
	for i := range 3 {
		p := config.Pool{Name: fmt.Sprint("pool", i), Price: float64(r.IntN(3))}
		if r.IntN(4) > 0 {
			p.Autoscale = config.Autoscale{Max: 1 + r.IntN(3), Target: 0.5, DryRun: r.IntN(2) == 0, MaxHeld: 4,
				MaxHold: config.Duration(time.Millisecond)}
		}
		cfg.Pools = append(cfg.Pools, p)
		cfg.Models = append(cfg.Models, config.Model{Name: fmt.Sprint("m", i), Pools: []config.ModelPool{{Name: p.Name}}})
	}
	p, err := NewPlan(cfg)
	if err != nil {
		t.Error(err)
	}
	return p
}

// TestManager_stress changes plans while controllers tick, requests wait and
// operators read. Afterwards no request waits and the controllers are those of the last
// plan.
func TestManager_stress(t *testing.T) {
	m := newTestManager(t)
	m.cfg.Every = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	var running, work sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	do := func(seed uint64, step func(r *rand.Rand)) {
		work.Go(func() {
			r := rand.New(rand.NewPCG(seed, 3))
			for range 200 {
				step(r)
			}
		})
	}
	do(1, func(r *rand.Rand) { m.Apply(randomPlan(t, r)) })
	do(2, func(r *rand.Rand) {
		if s, err := m.Room().Enter(fmt.Sprint("m", r.IntN(3)), "t"); s != nil && err == nil {
			s.Await(nil)
		}
	})
	do(3, func(r *rand.Rand) {
		m.Statuses()
		m.Capacity(fmt.Sprint("m", r.IntN(3)))
		m.Notice(fmt.Sprint("pool", r.IntN(3)), "http://10.0.0.1:8000", time.Now())
	})
	do(4, func(r *rand.Rand) {
		m.cfg.Store.Update(m.slot, func(s *endpoint.State) { s.Ready = r.IntN(2) == 0 })
		m.Work().Observe(answered(1, r.IntN(100)))
	})
	work.Wait()
	last := randomPlan(t, rand.New(rand.NewPCG(9, 9)))
	m.Apply(last)
	cancel()
	running.Wait()
	if len(m.groups) != len(last.groups) {
		t.Errorf("%d controllers, want %d", len(m.groups), len(last.groups))
	}
	if len(m.room.pools) != 0 || len(m.room.tenants) != 0 {
		t.Errorf("requests still wait: %v", m.room.pools)
	}
}
