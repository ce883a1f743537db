package scheduler

import (
	"errors"
	"slices"
)

// MaxScorers bounds the scorers and the filters of a profile: each is a call
// per decision, and each scorer's scores are kept for explain.
const MaxScorers = 4

// ErrAbstain is returned by scorers, filters and pickers that have no opinion
// on a batch. It is not a fault.
var ErrAbstain = errors.New("scheduler: abstains")

var (
	errNotFinite = errors.New("scheduler: a score is not finite")
	errDropsAll  = errors.New("scheduler: the filter drops every candidate: ignored")
)

// Weighted is a scorer whose scores count Weight times. Scores are added up in
// float64 in the order of the profile.
type Weighted struct {
	Scorer   Scorer
	Weight   float64 // not 0
	Required bool    // where it fails or abstains, the built-in scores the request
}

// Filter drops candidates of one decision. It is called as a Scorer is. A filter
// can only narrow: endpoints that policy, readiness or limits exclude stay excluded.
// A filter that drops every candidate is ignored, because refusing requests is up
// to policy (RATIONALE.md).
type Filter interface {
	Name() string
	// Filter sets drop[i], [b.N], to 0 to keep candidate i, else to 1 + the
	// index of a reason in Reasons. After an error drop is not read.
	Filter(b *Batch, drop []uint32) error
	Reasons() []string // for explain; must not be changed
}

// Picker puts the candidates of one decision in order. It is called as a
// Scorer is, with the summed scores in b.Scores.
type Picker interface {
	Name() string
	// Pick writes candidates where mask, [b.N], is 1 to order, the best first,
	// and returns how many; 0 leaves the choice to the built-in.
	Pick(b *Batch, mask, order []uint32) (int, error)
}

// extensionFault reports why the result of an extension does not count.
type extensionFault struct {
	use int // index in profile.extensions
	err error
}

// extension is what scorers, filters and pickers have in common.
type extension interface{ Name() string }

// eachExtension calls f with the scorers, the filters and the picker, in this order.
func (p *Profile) eachExtension(f func(extension)) {
	for i := range p.Scorers {
		f(p.Scorers[i].Scorer)
	}
	for _, v := range p.Filters {
		f(v)
	}
	if p.Picker != nil {
		f(p.Picker)
	}
}

// extensionsOf lists the extensions of a profile for explain.
func extensionsOf(p *Profile) []PluginUse {
	var out []PluginUse
	p.eachExtension(func(v extension) {
		u := PluginUse{Name: v.Name(), Digest: "builtin"}
		if d, ok := v.(Digester); ok {
			u.Digest = d.Digest()
		}
		if n, ok := v.(Noter); ok {
			u.Note = n.Note()
		}
		out = append(out, u)
	})
	return out
}

// addFault records that the result of an extension does not count.
func (d *decision) addFault(use int, err error) {
	d.faults = append(d.faults, extensionFault{use, err})
}

// callExtensions calls the filters, the scorers and the picker of the profile. No
// lock is held.
func (d *decision) callExtensions() {
	for k, f := range d.prof.Filters {
		if err := d.filter(f); err != nil {
			d.addFault(len(d.prof.Scorers)+k, err)
		}
	}
	if len(d.prof.Filters) > 0 {
		d.deepest()
	}
	d.score()
	if d.prof.Picker != nil && d.arm == armLocality {
		d.envelope()
		d.callPicker()
	}
}

// filter calls f and removes the candidates that it drops from the batch.
func (d *decision) filter(f Filter) error {
	if err := f.Filter(&d.b, d.drop); err != nil {
		return err
	}
	kept := 0
	for _, r := range d.drop {
		if r == 0 {
			kept++
		}
	}
	switch kept {
	case 0:
		return errDropsAll
	case d.b.N:
		return nil
	}
	reasons := f.Reasons()
	if len(d.dropped) != len(d.cands) {
		d.dropped = slices.Grow(d.dropped[:0], len(d.cands))[:len(d.cands)]
	}
	n := 0
	for i, r := range d.drop {
		at := d.order[i]
		if c := &d.cands[at]; r != 0 {
			c.state, c.why, c.col = candFiltered, reasonFilter, -1
			d.dropped[at] = reasons[min(int(r), len(reasons))-1]
			continue
		}
		d.moveColumn(n, i)
		n++
	}
	d.resize(n)
	d.live = d.b.loads()
	d.b.more(d.want, n)
	fillSpeeds(d.b.Speed, d.b.Rates)
	return nil
}

// moveColumn moves candidate i of the batch to place n before it.
func (d *decision) moveColumn(n, i int) {
	b := &d.b
	for _, c := range b.all() {
		(*c)[n] = (*c)[i]
	}
	for c := range b.More {
		if col := b.More[c]; col != nil {
			col[n] = col[i]
		}
	}
	b.Endpoints[n], b.Infos[n] = b.Endpoints[i], b.Infos[i]
	d.order[n], d.loads[n] = d.order[i], d.loads[i]
	d.cands[d.order[n]].col = int32(n)
}

// score fills the scores: by the profile's scorers, or by the built-in if none of
// them counts.
func (d *decision) score() {
	p := d.prof
	d.unit, d.source = p.unit, sourceProfile
	if d.arm == armHoldout {
		// The control arm is placed as if no cache were known.
		for i := range d.b.N {
			d.b.Uncached[i] = float32(d.tokens)
		}
	}
	if d.arm == armHoldout || !d.scored() {
		d.unit, d.source = CostTokens, sourceBuiltin
		p.native.Score(&d.b)
	}
}

// scored calls the scorers and reports whether they have filled the scores.
func (d *decision) scored() bool {
	p, b := d.prof, &d.b
	if p.direct {
		err := callScorer(p.Scorers[0].Scorer, b)
		if err != nil {
			d.addFault(0, err)
		}
		return err == nil
	}
	sum, count := b.Scores, 0
	for k := range p.Scorers {
		if cap(d.parts[k]) < b.N {
			d.parts[k] = make([]float32, (b.N+15)&^15)
		}
		d.parts[k] = d.parts[k][:b.N]
		b.Scores = d.parts[k]
		err := callScorer(p.Scorers[k].Scorer, b)
		b.Scores = sum
		if err != nil {
			clear(d.parts[k])
			d.addFault(k, err)
			if p.Scorers[k].Required {
				return false
			}
			continue
		}
		count++
	}
	d.addUp(sum)
	return count > 0 && finite(sum)
}

// addUp sets sum to the weighted sum of the parts, normalized if the profile asks.
func (d *decision) addUp(sum []float32) {
	p := d.prof
	if cap(d.sums) < len(sum) {
		d.sums = make([]float64, (len(sum)+15)&^15)
	}
	sums := d.sums[:len(sum)]
	clear(sums)
	for k := range p.Scorers {
		part, w := d.parts[k], p.Scorers[k].Weight
		if p.Normalize != NormalizeOff && !d.failed(k) {
			d.norm = p.Normalize.of(part, d.norm)
			part = d.norm
		}
		for i, v := range part {
			sums[i] += float64(w * float64(v))
		}
	}
	for i, s := range sums {
		sum[i] = float32(s)
	}
}

// failed reports whether the result of an extension does not count.
func (d *decision) failed(use int) bool {
	return slices.ContainsFunc(d.faults, func(f extensionFault) bool { return f.use == use })
}

// notifyDecided calls the profile's Decided.
func (d *decision) notifyDecided() {
	p := d.prof
	if p.Decided == nil || d.source == sourceBuiltin {
		return
	}
	accepted := d.accepted[:len(p.Scorers)]
	copy(accepted, d.parts[:])
	if p.direct {
		accepted[0] = d.b.Scores
	}
	for _, f := range d.faults {
		if f.use < len(accepted) {
			accepted[f.use] = nil
		}
	}
	p.Decided(&d.b, accepted)
}

// callScorer calls a scorer and checks its scores.
func callScorer(s Scorer, b *Batch) error {
	if err := s.Score(b); err != nil {
		return err
	}
	if !finite(b.Scores) {
		return errNotFinite
	}
	return nil
}

// callPicker calls the picker with the candidates that are not passed over.
func (d *decision) callPicker() {
	for i := range d.mask {
		d.mask[i] = 0
		if d.over[i] == reasonNone {
			d.mask[i] = 1
		}
	}
	order := d.pickMem[:min(keepOrder, d.b.N)]
	n, err := d.prof.Picker.Pick(&d.b, d.mask, order)
	if err != nil {
		d.addFault(len(d.prof.extensions)-1, err)
		return
	}
	d.picked = order[:min(n, len(order))]
}

// firstPicked returns the first column of the picker's order that is not passed over,
// -1 if there is none: then the built-in picks.
func (d *decision) firstPicked() int {
	for _, at := range d.picked {
		if int(at) < d.b.N && d.over[at] == reasonNone {
			return int(at)
		}
	}
	return -1
}

// pickedAt returns the position of a column in the picker's order, behind all others
// if it is not in it.
func (d *decision) pickedAt(col int) int {
	for k, at := range d.picked {
		if int(at) == col {
			return k
		}
	}
	return keepOrder
}

// finite reports whether no score is NaN or infinite: x-x is 0 for others.
func finite(scores []float32) bool {
	var sum float32
	for _, s := range scores {
		sum += s - s
	}
	return sum == 0
}
