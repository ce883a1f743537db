package scaling

import (
	"slices"

	"github.com/kvasir-router/kvasir/host/autoscale"
)

// Apply makes the controllers those of a plan. A group of pools that did not
// change keeps its controller with its history; others begin with the endpoints
// there are.
func (m *Manager) Apply(p *Plan) {
	m.ticking.Lock()
	defer m.ticking.Unlock()
	m.plan.Store(p)
	old := m.all()
	var next, gone []*group
	for i := range p.groups {
		g := find(old, &p.groups[i])
		if g == nil {
			g = m.build(p.groups[i])
		} else {
			g.change(p.groups[i])
		}
		next = append(next, g)
	}
	for _, g := range old {
		if !slices.Contains(next, g) {
			g.nodes.release()
			m.work.leave(g.pools)
			gone = append(gone, g)
		}
	}
	m.mu.Lock()
	m.groups, m.retired = next, append(m.retired, gone...)
	m.mu.Unlock()
}

// find returns the group of l whose controller the plan p would make, nil if none
// has it.
func find(l []*group, p *groupPlan) *group {
	i := slices.IndexFunc(l, func(g *group) bool { return same(&g.plan, p) })
	if i < 0 {
		return nil
	}
	return l[i]
}

// build makes the controller of a group. The caller holds ticking.
func (m *Manager) build(p groupPlan) *group {
	m.fence = max(m.fence+1, uint64(m.cfg.Now().UnixMilli())) // its keys differ from all that were ordered before
	g := &group{plan: p, pools: p.names(), nodes: newNodes(&m.cfg, m.work, p.cfg)}
	c, err := autoscale.New(autoscale.Group{Pools: p.pools, Fleet: g.nodes, Log: m.cfg.Log, Fence: m.fence,
		Audit: m.audit}, m.cfg.Now())
	if err != nil { // NewPlan refuses it
		panic("BUG: scaling: " + err.Error())
	}
	g.control = c
	return g
}

// change gives a group the attributes of its pools in p. The caller holds ticking.
func (g *group) change(p groupPlan) {
	g.plan = p
	g.nodes.setPools(p.cfg)
	for i := range p.pools {
		g.control.SetPrice(p.pools[i].Name, p.pools[i].Price, p.pools[i].Spot)
	}
}

func (m *Manager) audit(a autoscale.Action) {
	if !a.DryRun {
		m.cfg.Audit(a)
	}
}
