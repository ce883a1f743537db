package scheduler

import "math"

// pick chooses a column, -1 if all are passed over. The cost decides, except for
// differences that are small beside the cost of a whole conversation: there the rules of
// the profile decide.
func (d *decision) pick() int {
	clear(d.joins)
	clear(d.groupCounts)
	d.costs()
	d.branch = branchPoint{}
	best := d.cheapest()
	rules := &d.prof.Conversations
	if best < 0 || !rules.any() || d.arm == armHoldout || d.unit != CostTokens || !d.r.API.Op.HasPrompt() {
		return best
	}
	t := &d.model.state.conversations
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.deep < 0 {
		d.branch = t.findLocked(0)
		return d.spread(best)
	}
	c := &d.cands[d.order[d.deep]]
	shared := d.branchPointOf(t, c)
	if d.branch.group == nil {
		return d.hold(best, float32(c.matched))
	}
	if d.prof.own*float32(shared) < trivialPrefix {
		d.branch = t.findLocked(0)
		return d.spread(best)
	}
	d.join(shared)
	best = d.moved(RuleJoin, best, d.argmin())
	if !d.joins[best] {
		return d.hold(best, float32(c.matched))
	}
	return d.spread(best)
}

// costs sets the totals: minus the scores, plus what has been charged since they were
// computed, less the policy's preference.
func (d *decision) costs() {
	for i, s := range d.b.Scores {
		d.total[i] = -s
	}
	if !d.prof.builtin && d.source == sourceProfile {
		for i := range d.total {
			d.total[i] += d.costGrowth(i)
		}
	}
	if len(d.dec.Prefer) == 0 {
		return
	}
	for i := range d.total {
		d.total[i] -= d.preferred(i)
	}
}

// less orders two columns: cost, then fewest in flight, then keyed random.
func (d *decision) less(i, j int) bool {
	if d.total[i] != d.total[j] {
		return d.total[i] < d.total[j]
	}
	return d.lessTie(i, j)
}

// lessTie orders columns of equal cost.
func (d *decision) lessTie(i, j int) bool {
	if a, b := d.live.inflight[i], d.live.inflight[j]; a != b {
		return a < b
	}
	a, b := mix(d.seed^uint64(d.b.Endpoints[i])<<1), mix(d.seed^uint64(d.b.Endpoints[j])<<1)
	if d.model.weighted {
		return d.draw(i, a) < d.draw(j, b)
	}
	return a < b
}

// draw returns an exponential variate of a column with its pool's weight as rate: the
// least of several is a column's with the probability of its weight among them.
func (d *decision) draw(i int, hash uint64) float64 {
	return -math.Log((float64(hash>>11)+1)/(1<<53)) * float64(d.factor(i))
}

// argmin returns the cheapest column that is not passed over, -1 if there is none.
func (d *decision) argmin() int {
	best := -1
	for i := range d.b.N {
		if d.over[i] == reasonNone && (best < 0 || d.less(i, best)) {
			best = i
		}
	}
	return best
}

// deepest finds the column with the longest match that is given any credit.
func (d *decision) deepest() {
	if d.deep = -1; d.known == promptEstimated || d.arm == armHoldout {
		return
	}
	best := -1
	for i := range d.b.N {
		if d.b.Uncached[i] < float32(d.tokens) && d.b.Matched[i] > 0 && (best < 0 || d.b.Matched[i] > d.b.Matched[best]) {
			best = i
		}
	}
	d.deep = best
}
