package scheduler

import "math"

// envelope marks the candidates that are passed over however warm the scorer
// finds them. If that would be all of them, only those at their cap are.
func (d *decision) envelope() {
	e := &d.prof.Envelope
	n := d.b.N
	var sum, requests float32
	for i := range n {
		sum += d.live.outstanding[i]
		requests += d.live.inflight[i]
	}
	limit := float32(e.MaxLoadRatio*(sum/float32(n))) + max(0, e.SlackTokens)
	tenant := ""
	if d.r.Principal != nil {
		tenant = d.r.Principal.Tenant
	}
	left := n
	for i := range n {
		d.over[i] = reasonNone
		switch out := d.live.outstanding[i]; {
		case d.model.capped && d.atCap(i):
			d.over[i] = reasonCap
		case e.MaxLoadRatio > 0 && out > limit:
			d.over[i] = reasonLoad
		case e.MaxShare > 0 && out > max(0, e.SlackTokens) && d.crowds(i, tenant):
			d.over[i] = reasonShare
		case d.holdsShare(i, tenant):
			d.over[i] = reasonShare
		case d.ramps(i, requests/float32(n)):
			d.over[i] = reasonRamp
		default:
			continue
		}
		left--
	}
	if left < n {
		left += d.pardon()
	}
	if left > 0 {
		return
	}
	for i, why := range d.over {
		if why != reasonCap {
			d.over[i] = reasonNone
		}
	}
}

// pardon takes back the verdict on endpoints above the load limit that are the
// cheapest all the same by the built-in cost, in which that load is counted:
// to pass them over would make everybody wait longer (RATIONALE.md).
func (d *decision) pardon() (pardoned int) {
	least, over := float32(math.MaxFloat32), false
	for i := range d.b.N {
		switch d.over[i] {
		case reasonNone:
			least = min(least, d.native(i))
		case reasonLoad:
			over = true
		}
	}
	if !over {
		return 0
	}
	for i := range d.b.N {
		if d.over[i] == reasonLoad && d.native(i) <= least {
			d.over[i] = reasonNone
			pardoned++
		}
	}
	return pardoned
}

// native returns the built-in cost of a column, less what policy prefers.
func (d *decision) native(i int) float32 {
	b := &d.b
	return d.prof.native.cost(b.Uncached[i], d.live.outstanding[i], d.live.inflight[i], d.live.kv[i], b.Speed[i]) - float32(b.Prefer[i]*preferTokens)
}

// crowds reports whether a tenant holds more than its share of an endpoint's
// outstanding work while others wait there too.
func (d *decision) crowds(i int, tenant string) bool {
	own := float32(d.loads[i].TenantOutstanding(tenant))
	all := d.live.outstanding[i]
	return own < all && own > d.prof.Envelope.MaxShare*all
}

// ramps reports whether an endpoint that came back has its part of a returner.
func (d *decision) ramps(i int, meanInflight float32) bool {
	r := d.loads[i].Ramp(d.now)
	return r < 1 && d.live.inflight[i] > r*meanInflight
}

// finite reports whether no score is NaN or infinite: x-x is 0 for others.
func finite(scores []float32) bool {
	var sum float32
	for _, s := range scores {
		sum += s - s
	}
	return sum == 0
}

// less orders two columns: cost, then fewest in flight, then keyed random.
func (d *decision) less(i, j int) bool {
	if d.total[i] != d.total[j] {
		return d.total[i] < d.total[j]
	}
	return d.lessTie(i, j)
}

func (d *decision) lessTie(i, j int) bool {
	if a, b := d.live.inflight[i], d.live.inflight[j]; a != b {
		return a < b
	}
	return mix(d.seed^uint64(d.b.Endpoints[i])<<1) < mix(d.seed^uint64(d.b.Endpoints[j])<<1)
}

// argmin returns the cheapest column not passed over, -1 if there is none.
func (d *decision) argmin() int {
	best := -1
	for i := range d.b.N {
		if d.over[i] == reasonNone && (best < 0 || d.less(i, best)) {
			best = i
		}
	}
	return best
}

// pick chooses a column. The cost decides, except for differences that are
// noise on the scale of a line: those go to the line (hold, spread).
func (d *decision) pick() int {
	clear(d.joins)
	clear(d.groupCounts)
	d.costs()
	d.branch = branchPoint{}
	if d.arm == armHoldout || d.unit != CostTokens || !d.r.API.Op.HasPrompt() {
		return d.argmin()
	}
	t := &d.model.state.conversations
	t.mu.Lock()
	defer t.mu.Unlock()
	deepest := d.deep
	if deepest < 0 {
		d.branch = t.findLocked(0)
		best := d.argmin()
		return d.spread(best)
	}
	c := &d.cands[d.order[deepest]]
	shared := d.leaves(t, c)
	if d.branch.group == nil {
		return d.hold(float32(c.matched))
	}
	if d.prof.own*float32(shared) < d.prof.Envelope.NearTokens/trifle {
		d.branch = t.findLocked(0)
		return d.spread(d.argmin())
	}
	d.join(shared)
	best := d.argmin()
	if best < 0 || !d.joins[best] {
		return d.hold(float32(c.matched))
	}
	return d.spread(best)
}

// trifle divides NearTokens: a shared prefix that costs less than that to compute
// (256 tokens, a short system prompt) is not worth a line's place. Its lines begin
// as if they had nothing in common.
const trifle = 16

// costs sets the totals to minus the scores, less what policy prefers.
func (d *decision) costs() {
	for i, s := range d.b.Scores {
		d.total[i] = -s
	}
	if !d.prof.builtin && d.source == sourceProfile {
		for i := range d.total {
			d.total[i] += d.growth(i)
		}
	}
	if len(d.dec.Prefer) == 0 {
		return
	}
	for i := range d.total {
		d.total[i] -= d.preferred(i)
	}
}

// branchBlocks is how far before the end of a match the end of a shared prefix
// is looked for. A prefix ends within a block; the block after it also holds the
// first tokens of what follows, of which there are few different ones (a digit,
// a greeting), so that some beginnings match one block more than others.
const branchBlocks = 2

// leaves finds the branch point of a prompt that leaves the known after the match
// of c, and returns the matched tokens of the shared prefix it belongs to: the
// shortest one that is known within branchBlocks.
func (d *decision) leaves(t *conversations, c *cand) uint32 {
	size := d.prompt.q.Sizes[c.class]
	chain, n := d.prompt.p.Chains[c.class], int(c.matched)/size
	for k := max(1, n-branchBlocks); k < n; k++ {
		if t.knownLocked(chain[k-1]) {
			d.branch = t.findLocked(chain[k-1])
			return uint32(k * size)
		}
	}
	d.branch = t.findLocked(chain[n-1])
	return c.matched
}

// deepest finds the column with the longest match that is given any credit.
func (d *decision) deepest() {
	if d.deep = -1; !d.exact || d.arm == armHoldout {
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

// hold keeps a line where its longest match is, unless moving it is cheaper by
// more than the tolerance: NearTokens, and what the envelope allows an endpoint
// above the mean. Loads differ by about the root of the requests in flight at
// any moment; a line that followed each of these ripples would never come to
// rest.
func (d *decision) hold(matched float32) int {
	best := d.argmin()
	home := -1
	for i := range d.b.N {
		if d.over[i] == reasonNone && d.b.Matched[i] == matched && d.b.Uncached[i] < float32(d.tokens) && (home < 0 || d.less(i, home)) {
			home = i
		}
	}
	if home < 0 || home == best {
		return best
	}
	if d.total[home] <= d.total[best]+d.tolerance() {
		return home
	}
	return best
}

// tolerance is the cost by which a line's home may be dearer.
func (d *decision) tolerance() float32 {
	e := &d.prof.Envelope
	if e.NearTokens == 0 {
		return 0
	}
	var sum float32
	for _, out := range d.live.outstanding {
		sum += out
	}
	return e.NearTokens + max(0, e.MaxLoadRatio-1)*sum/float32(d.b.N)
}

// join marks the endpoints a shared prefix is wanted on: those that hold it
// and, while every one of them is busy and it is wanted on more, the ones with
// the fewest lines. It is wanted on more by its share of all lines, or where the
// lines of its holders outnumber those of others. A joiner is not charged for the
// copy, which the lines of the prefix have paid for already.
func (d *decision) join(matched uint32) {
	n := d.b.N
	l := &d.branch
	l.group.counts(d, d.groupCounts)
	l.root.counts(d, d.modelCounts)
	have, busy := 0, true
	held := float32(d.tokens)
	var sum float32
	fewest := float32(math.MaxFloat32) // lines of the holder that has the fewest
	for i := range n {
		sum += d.modelCounts[i]
		if d.b.Matched[i] >= float32(matched) && d.b.Uncached[i] < float32(d.tokens) {
			d.joins[i] = true
			have++
			held = min(held, d.b.Uncached[i])
			fewest = min(fewest, d.modelCounts[i])
			busy = busy && d.live.inflight[i] > 0
		}
	}
	if !busy {
		return
	}
	skew := fewest - max(copyCount/2, skewShare*sum/float32(n))
	for ; have < l.paid(n); have++ {
		next := -1
		for i := range n {
			if !d.joins[i] && d.over[i] == reasonNone && (next < 0 || d.fewer(i, next)) {
				next = i
			}
		}
		if next < 0 || have >= l.byShare(n) && d.modelCounts[next] > skew {
			return
		}
		d.joins[next] = true
		d.total[next] -= d.prof.own * d.b.Speed[next] * max(0, d.b.Uncached[next]-held)
	}
}

// skewShare of the mean, and half of copyCount, is how many more lines than others
// the holders of a shared prefix may have before it is wanted elsewhere.
const skewShare = 0.05

// spread chooses among the near-ties of best the one where the fewest lines
// began. own is the cost of the request's own tokens: what is small beside what
// its line will cost, and beside half of NearTokens, is noise. Half, because a
// line that begins elsewhere loses nothing by it, so less load outweighs it.
func (d *decision) spread(best int) int {
	if best < 0 {
		return best
	}
	l := &d.branch
	if l.group == l.root {
		l.root.counts(d, d.groupCounts)
		copy(d.modelCounts, d.groupCounts)
	}
	limit := d.total[best] + d.b.Speed[best]*d.prof.Envelope.NearTokens/4
	pick := best
	for i := range d.b.N {
		if d.over[i] != reasonNone || d.total[i] > limit || d.b.Prefer[i] < d.b.Prefer[best] || l.group != l.root && !d.joins[i] {
			continue
		}
		if d.fewer(i, pick) {
			pick = i
		}
	}
	return pick
}

// fewer orders by lines of the group, then lines of the model, both scaled by
// how slow the endpoint is, then by cost.
func (d *decision) fewer(i, j int) bool {
	if a, b := d.groupCounts[i]*d.b.Speed[i], d.groupCounts[j]*d.b.Speed[j]; a != b {
		return a < b
	}
	if a, b := d.modelCounts[i]*d.b.Speed[i], d.modelCounts[j]*d.b.Speed[j]; a != b {
		return a < b
	}
	return d.less(i, j)
}
