package scheduler

import "cmp"

// profile is a profile of the configuration and what follows from it. It is
// immutable.
type profile struct {
	Profile
	native     *LeastWork  // scores where no scorer of the profile counts
	builtin    bool        // native alone scores, which needs no reported columns
	direct     bool        // one scorer of weight 1: its scores are the sum
	want       ColumnSet   // columns that the extensions read
	weights    []float64   // by scorer; nil = direct
	unit       Unit        // of the sum
	scale      float32     // how many times a token of cost counts in the sum
	own        float32     // weight of a request's own new tokens in the built-in cost
	extensions []PluginUse // scorers, filters, picker, in this order
}

// newProfile returns p with its defaults.
func newProfile(p Profile) *profile {
	n := NewLeastWork(p.Objective)
	if len(p.Scorers) == 0 {
		p.Scorers = []Weighted{{Scorer: n, Weight: 1}}
	}
	if p.Objective == "" {
		p.Objective = Blend
	}
	p.Envelope = p.Envelope.withDefaults()
	p.SessionTTL = cmp.Or(p.SessionTTL, defaultSessionTTL)
	p.Conversations = p.Conversations.withDefaults(p.Objective != TTFT && len(p.Scorers) == 1 &&
		p.Scorers[0].Scorer.Name() == n.Name())
	out := &profile{Profile: p, native: n, unit: p.Scorers[0].Scorer.Unit(), own: n.w.Own,
		extensions: extensionsOf(&p), want: p.wants()}
	if out.Normalize == "" {
		out.Normalize = NormalizeOff
	}
	if out.direct = len(p.Scorers) == 1 && p.Scorers[0].Weight == 1; out.Normalize.on() {
		out.direct, out.unit = false, UnitScore
	}
	var sum float64
	for i := range p.Scorers {
		sum += p.Scorers[i].Weight
		if !out.direct {
			out.weights = append(out.weights, p.Scorers[i].Weight)
		}
	}
	out.scale = float32(max(0, sum))
	_, native := p.Scorers[0].Scorer.(*LeastWork)
	out.builtin = native && out.direct && len(p.Filters) == 0 && p.Picker == nil
	return out
}

// columnsRead returns the columns to fill for a decision.
func (p *profile) columnsRead() ColumnSet {
	if p.Wants == nil {
		return p.want
	}
	return p.want | p.Wants()
}
