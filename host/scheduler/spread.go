package scheduler

import "math"

// trivialPrefix is the cost in tokens of computing a shared prefix below which it has no
// influence on where its conversations begin: 256 tokens, a short system prompt.
const trivialPrefix = 512

// branchBlocks is how many blocks before the end of a match the end of a shared
// prefix is searched. A prefix ends within a block; that block also holds the first
// tokens of what follows, which are often the same (a digit, a greeting), so that
// some conversations match one block more than others.
const branchBlocks = 2

// branchPointOf sets d.branch for a prompt whose longest match is that of c. It
// returns the matched tokens of the shared prefix: the shortest one that is known
// within branchBlocks.
func (d *decision) branchPointOf(t *conversations, c *cand) uint32 {
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

// hold keeps a conversation on the endpoint with its longest match, unless best is
// cheaper by more than the tolerance: HoldTokens, and what the envelope allows an
// endpoint above the mean. At any moment loads differ by about the square root of
// the requests in flight; a conversation that followed each of these differences
// would keep moving.
func (d *decision) hold(best int, matched float32) int {
	if d.prof.Conversations.HoldTokens == 0 {
		return best
	}
	home := -1
	for i := range d.b.N {
		if d.over[i] == reasonNone && d.b.Matched[i] == matched && d.b.Uncached[i] < float32(d.tokens) &&
			(home < 0 || d.less(i, home)) {
			home = i
		}
	}
	if home < 0 || d.total[home] > d.total[best]+d.tolerance() {
		return best
	}
	return d.moved(RuleHold, best, home)
}

// tolerance is by how much the cost of a conversation's home may exceed the least.
func (d *decision) tolerance() float32 {
	var sum float32
	for _, out := range d.live.outstanding {
		sum += out
	}
	return min(1, d.b.Affinity)*d.prof.Conversations.HoldTokens + max(0, d.prof.Envelope.MaxLoadRatio-1)*sum/float32(d.b.N)
}

// join marks the endpoints that should hold a shared prefix: its holders and, while
// all of them are busy, further endpoints up to what the prefix deserves, those with
// the fewest conversations first. It deserves endpoints by its share of all conversations, and
// more where its holders have more conversations than others. An endpoint that joins
// is not charged for the copy, which the conversations of the prefix have paid for.
func (d *decision) join(matched uint32) {
	n := d.b.N
	l := &d.branch
	l.group.counts(d, d.groupCounts)
	l.root.counts(d, d.modelCounts)
	have, busy := 0, true
	held := float32(d.tokens)
	var sum float32
	fewest := float32(math.MaxFloat32) // conversations of the holder that has the fewest
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
	after := d.prof.Conversations.JoinAfter
	if !busy || after == 0 {
		return
	}
	skew := fewest - max(float32(after)/2, skewShare*sum/float32(n))
	for ; have < l.paid(n, after); have++ {
		next := -1
		for i := range n {
			if !d.joins[i] && d.over[i] == reasonNone && (next < 0 || d.hasFewer(i, next)) {
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

// skewShare of the mean, and half of JoinAfter, is by how many conversations the holders
// of a shared prefix may exceed others before it is copied elsewhere.
const skewShare = 0.05

// spread chooses, among the columns that cost at most SpreadTokens more than best and
// have hardly more requests in flight than the least busy of them, the one on which the
// fewest conversations began.
func (d *decision) spread(best int) int {
	l := &d.branch
	if l.group == l.root {
		l.root.counts(d, d.groupCounts)
		copy(d.modelCounts, d.groupCounts)
	}
	band := d.prof.Conversations.SpreadTokens
	if band == 0 {
		return best
	}
	limit := d.total[best] + d.b.Speed[best]*band
	least := d.busy(best)
	for i := range d.b.N {
		if d.maySpread(i, best, limit) {
			least = min(least, d.busy(i))
		}
	}
	least = max(least+1, least*(1+presentShare))
	pick := -1
	for i := range d.b.N {
		if (i == best || d.maySpread(i, best, limit)) && d.busy(i) <= least && (pick < 0 || d.hasFewer(i, pick)) {
			pick = i
		}
	}
	return d.moved(RuleSpread, best, pick)
}

// presentShare, but at least one request, is by how much more than the least busy
// endpoint one may have in flight and still be chosen for the conversations that it
// lacks. What is in flight is the present: without the bound a burst of equal requests
// would first make up for all differences of the past.
const presentShare = 0.05

// busy is the requests in flight on a column, scaled by how slow the endpoint is.
func (d *decision) busy(i int) float32 { return d.live.inflight[i] * d.b.Speed[i] }

// maySpread reports whether a conversation may begin on column i instead of best.
func (d *decision) maySpread(i, best int, limit float32) bool {
	return d.over[i] == reasonNone && d.total[i] <= limit && d.b.Prefer[i] >= d.b.Prefer[best] &&
		(d.branch.group == d.branch.root || d.joins[i])
}

// hasFewer orders by conversations of the group, then of the model, both scaled by
// how slow the endpoint is and by the weight of its pool, then by cost.
func (d *decision) hasFewer(i, j int) bool {
	x, y := d.b.Speed[i], d.b.Speed[j]
	if d.model.weighted {
		x, y = x*d.factor(i), y*d.factor(j)
	}
	if a, b := d.groupCounts[i]*x, d.groupCounts[j]*y; a != b {
		return a < b
	}
	if a, b := d.modelCounts[i]*x, d.modelCounts[j]*y; a != b {
		return a < b
	}
	return d.less(i, j)
}
