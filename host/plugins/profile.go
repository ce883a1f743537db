package plugins

import (
	"fmt"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// profileBuilder adds the plugins of one profile to its rules.
type profileBuilder struct {
	*plan
	number  int
	p       *config.Profile
	out     *scheduler.Profile
	used    []*plugin
	places  []*scoring // by scorer, nil = no plugin
	scorers int        // of scored that are plugins
}

// use loads a plugin in a role. It returns nil without an error if the plugin has no
// module yet, and a placeholder if all its modules are set aside.
func (b *profileBuilder) use(name string, role wasm.Role, cfg config.JSON) (*adapter, *placeholder, error) {
	c := declared(b.cfg, name)
	fits := func(p *plugin) error {
		if !p.Has(role) {
			return fmt.Errorf("its manifest has no role %v", role)
		}
		if role == wasm.Score {
			return b.addable(p)
		}
		return nil
	}
	pl, why, err := b.load(&c, cfg, false, fits)
	if err != nil {
		return nil, nil, err
	}
	if pl == nil && why != nil {
		return nil, &placeholder{name: name, why: why}, nil
	}
	if pl == nil {
		b.log.Warn("plugin has no module: placing without it until it is pushed", "plugin", name)
		return nil, nil, nil
	}
	b.Set.plugins, b.used = append(b.Set.plugins, pl), append(b.used, pl)
	a := newAdapter(pl, b.cfg, b.number, b.p.Objective)
	if why != nil {
		a.note = fmt.Sprintf("using the %s module: %v", pl.source, why)
	}
	return a, nil, nil
}

// addable returns why the scores of a plugin cannot be added to those of the scorers
// before it, nil = they can.
func (b *profileBuilder) addable(p *plugin) error {
	for _, s := range b.out.Scorers {
		if _, gone := s.Scorer.(*placeholder); gone || b.p.Normalize != "off" {
			continue
		}
		if unit := (scorer{&adapter{p: p}}).Unit(); unit != s.Scorer.Unit() {
			return fmt.Errorf("its scores have unit %v, those of %s unit %v: they cannot be added; normalize: minmax or "+
				"rank makes them comparable", unit, s.Scorer.Name(), s.Scorer.Unit())
		}
	}
	return nil
}

// scorer adds one scorer.
func (b *profileBuilder) scorer(s *config.Scorer) error {
	add := func(x scheduler.Scorer, place *scoring) {
		b.out.Scorers = append(b.out.Scorers, scheduler.Weighted{Scorer: x, Weight: s.Weight, Required: s.Required})
		b.places = append(b.places, place)
	}
	if s.Builtin != "" {
		add(builtin(s.Builtin, b.p.Objective), nil)
		return nil
	}
	a, gone, err := b.use(s.Plugin, wasm.Score, s.Config)
	switch {
	case err != nil:
		return err
	case gone != nil:
		add(gone, nil)
	case a != nil:
		add(scorer{a}, &scoring{a.p.key, b.cfg, b.number, b.p.Objective})
		b.scorers++
	}
	return nil
}

// unify gives placeholders the unit of the other scorers.
func (b *profileBuilder) unify() {
	unit := scheduler.CostTokens
	for _, s := range b.out.Scorers {
		if _, gone := s.Scorer.(*placeholder); !gone {
			unit = s.Scorer.Unit()
		}
	}
	for _, s := range b.out.Scorers {
		if gone, ok := s.Scorer.(*placeholder); ok {
			gone.unit = unit
		}
	}
}

func (b *profileBuilder) filter(name string) error {
	a, gone, err := b.use(name, wasm.Filter, "")
	switch {
	case err != nil:
		return err
	case gone != nil:
		b.out.Filters = append(b.out.Filters, gone)
	case a != nil:
		b.out.Filters = append(b.out.Filters, filter{a})
	}
	return nil
}

func (b *profileBuilder) picker(name string) error {
	if name == config.Builtin {
		return nil
	}
	a, gone, err := b.use(name, wasm.Pick, "")
	switch {
	case err != nil:
		return err
	case gone != nil:
		b.out.Picker = gone
	case a != nil:
		b.out.Picker = picker{a}
	}
	return nil
}

// profile adds scorers, filters and picker of a profile to out.
func (pl *plan) profile(number int, p *config.Profile, out *scheduler.Profile) error {
	b := &profileBuilder{plan: pl, number: number, p: p, out: out}
	for i := range p.Scorers {
		if err := b.scorer(&p.Scorers[i]); err != nil {
			return err
		}
	}
	b.unify()
	for _, name := range p.Filters {
		if err := b.filter(name); err != nil {
			return err
		}
	}
	if err := b.picker(p.Picker); err != nil {
		return err
	}
	if b.scorers > 0 {
		for _, s := range b.places {
			if s != nil {
				b.Set.scored = append(b.Set.scored, s)
			}
		}
		places := b.places
		shadows := &b.offPath.shadows
		out.Wants = shadows.wants
		out.Decided = func(b *scheduler.Batch, parts [][]float32) { shadows.offer(places, b, parts) }
	}
	return nil
}
