package plugins

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// sizer is a plugin as an override of the autoscaler. It holds a name: the
// version in force is looked up at each call, so that a swap costs the controller
// none of its history.
type sizer struct {
	m      *Manager
	name   string
	shadow bool
}

// Sizer returns what overrides the controller of a pool by the rules in force, nil =
// nothing, and whether it is only compared.
func (m *Manager) Sizer(pool string) (autoscale.Overrider, bool) {
	set, _, release := m.rules.Current()
	defer release()
	for i := range set.cfg.Pools {
		if a := &set.cfg.Pools[i].Autoscale; set.cfg.Pools[i].Name == pool && a.Plugin != "" {
			return sizer{m, a.Plugin, a.Shadow}, a.Shadow
		}
	}
	return nil, false
}

// Propose implements autoscale.Overrider.
func (s sizer) Propose(_ context.Context, v *autoscale.View) (*autoscale.Override, error) {
	set, _, release := s.m.rules.Current()
	defer release()
	p, err := set.experimental(s.name, wasm.Autoscale)
	if err != nil {
		return nil, err
	}
	view := scaleView(v)
	if s.shadow {
		view.Flags = abi.FlagShadow
	}
	size, err := p.Autoscale(view)
	switch {
	case errors.Is(err, wasm.ErrAbstain):
		return nil, nil
	case err != nil:
		return nil, p.why(err)
	}
	o := scaleOverride(v, size)
	o.By = fmt.Sprintf("%s %s %.12s", s.name, p.Manifest().Version, p.Digest())
	return o, nil
}

// why completes the error of a call by what put the plugin into quarantine.
func (p *plugin) why(err error) error {
	if reason := p.Quarantine(); reason != "" && errors.Is(err, wasm.ErrQuarantined) {
		return fmt.Errorf("%w: %s", err, reason)
	}
	return err
}

// scaleView lays out a view as plugins see it.
func scaleView(v *autoscale.View) *wasm.ScaleView {
	p := &v.Proposal
	out := &wasm.ScaleView{NowMS: float64(v.NowMs), Proposal: wasm.ScaleProposal{
		Desired: count(p.Desired), Wish: count(p.Wish), Window: count(p.Window), Rate: p.Rate, Lead: p.Lead, Ahead: p.Ahead,
		Backlog: p.Backlog, ColdMS: millis64(p.Cold),
	}}
	for i := range v.Pools {
		pool := scalePool(&v.Pools[i])
		for k := range v.Pools[i].Machines {
			n := &v.Pools[i].Machines[k]
			out.Nodes = append(out.Nodes, wasm.ScaleNode{
				Name: n.ID, Pool: uint32(i), Ready: n.Ready, Failing: n.Failing, Drain: drainCodes[n.Drain],
				Inflight: count(n.InFlight), Sessions: count(n.Sessions),
				Heat: n.Heat, AgeMS: float64(n.AgeMs), OldestMS: float64(n.OldestMs),
			})
		}
		out.Pools = append(out.Pools, pool)
	}
	for i := range v.History {
		s := &v.History[i]
		for col, x := range [abi.NumScaleSamples]float64{
			abi.ScaleSampleAgeMs: float64(v.NowMs - s.AtMs), abi.ScaleSampleRate: s.Rate, abi.ScaleSampleBacklog: s.Backlog,
			abi.ScaleSampleQueueMs:  float64(s.QueueMs),
			abi.ScaleSampleInflight: float64(s.InFlight), abi.ScaleSampleKVUsage: s.KVUsage,
			abi.ScaleSampleReady:   float64(s.Ready),
			abi.ScaleSamplePending: float64(s.Pending), abi.ScaleSampleDesired: float64(s.Desired),
		} {
			out.Samples[col] = append(out.Samples[col], float32(x))
		}
		out.Proposal.Now = count(s.Ready + s.Pending) // the last is this tick's
	}
	return out
}

func scalePool(p *autoscale.PoolView) wasm.ScalePool {
	out := wasm.ScalePool{Name: p.Name, Min: count(p.Min), Max: count(p.Max), Pending: count(p.Pending), Spot: p.Spot,
		Blocked: p.Blocked, Price: p.Price, ColdMS: float64(p.ColdMs)}
	for i := range p.Machines {
		n := &p.Machines[i]
		out.Outstanding += count(n.InFlight)
		switch {
		case n.Drain != autoscale.Serving.String():
			out.Draining++
		case n.Failing:
			out.Failed++
		case n.Ready:
			out.Ready++
		}
	}
	return out
}

// drainCodes are the numbers of the stages of a drain in the ABI.
var drainCodes = map[string]uint32{autoscale.Serving.String(): 0, autoscale.NoSessions.String(): 1,
	autoscale.NoRequests.String(): 2}

func count(n int) uint32 { return uint32(max(0, min(n, 1<<30))) }

func millis64(d time.Duration) float64 { return d.Seconds() * 1e3 }

// scaleOverride converts the answer of a plugin to the names of v.
func scaleOverride(v *autoscale.View, s *wasm.ScaleSize) *autoscale.Override {
	o := &autoscale.Override{Desired: int(s.Desired), HoldMs: clampMS(s.HoldMS), TTLMs: clampMS(s.TTLMS), Reason: s.Reason}
	for i, n := range s.Pools {
		if n != abi.Unwritten {
			if o.Pools == nil {
				o.Pools = map[string]int{}
			}
			o.Pools[v.Pools[i].Name] = int(n)
		}
	}
	var ids []string
	for i := range v.Pools {
		for k := range v.Pools[i].Machines {
			ids = append(ids, v.Pools[i].Machines[k].ID)
		}
	}
	for _, i := range s.Victims {
		o.Victims = append(o.Victims, ids[i])
	}
	return o
}

// clampMS converts finite milliseconds of at least 0 to an integer. Values too large
// become the largest one, which is rejected later.
func clampMS(ms float64) int64 { return int64(min(ms, 1e15)) }
