package scheduler

import "math"

// envelope marks the candidates that are passed over whatever their scores. If all
// would be, only those at their cap are.
func (d *decision) envelope() {
	e := &d.prof.Envelope
	n := d.b.N
	var requests float32
	for i := range n {
		requests += d.live.inflight[i]
	}
	limit, least := d.loadLimit(), leastUncached{}
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
		case limit > 0 && d.load(i) > limit && d.load(i)-d.saved(i, &least) > limit:
			d.over[i] = reasonLoad
		case e.MaxShare > 0 && out > max(0, e.SlackTokens) && d.exceedsShare(i, tenant):
			d.over[i] = reasonShare
		case d.exceedsPolicyShare(i, tenant):
			d.over[i] = reasonShare
		case d.rampsUp(i, requests/float32(n)):
			d.over[i] = reasonRamp
		default:
			continue
		}
		left--
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

// load is the work of a column in tokens: prompts to compute, and answers to decode by
// the weight of their KV memory.
func (d *decision) load(i int) float32 {
	return d.live.outstanding[i] + d.prof.native.w.KV*d.live.kv[i]
}

// loadLimit is the load above which a column is passed over, 0 if there is no bound.
func (d *decision) loadLimit() float32 {
	e := &d.prof.Envelope
	if e.MaxLoadRatio <= 0 {
		return 0
	}
	var sum float32
	for i := range d.b.N {
		sum += d.load(i)
	}
	return float32(e.MaxLoadRatio*(sum/float32(d.b.N))) + max(0, e.SlackTokens)
}

// saved is what a request saves on a column: the tokens that every other candidate would
// have to compute beyond its own, and what policy's preference for it outweighs. To
// pass an endpoint over whose load is smaller than that would make the request wait
// longer (RATIONALE.md).
func (d *decision) saved(i int, least *leastUncached) float32 {
	if !least.known {
		*least = leastUncachedOf(d.b.Uncached)
	}
	return max(0, least.others(i)-d.b.Uncached[i]) + d.b.Prefer[i]*preferTokens
}

// leastUncached is the two least numbers of uncached tokens among the candidates of a
// decision. It is found when a first candidate is above the load limit, and once for all.
type leastUncached struct {
	known       bool
	at          int // column of first
	first, next float32
}

func leastUncachedOf(uncached []float32) leastUncached {
	l := leastUncached{known: true, first: math.MaxFloat32, next: math.MaxFloat32}
	for i, u := range uncached {
		if u < l.first {
			l.at, l.first, l.next = i, u, l.first
		} else {
			l.next = min(l.next, u)
		}
	}
	if len(uncached) == 1 {
		l.next = 0 // there is no other
	}
	return l
}

// others returns the least of all candidates but the one of a column.
func (l *leastUncached) others(i int) float32 {
	if i == l.at {
		return l.next
	}
	return l.first
}

// exceedsShare reports whether a tenant has more than the profile's share of an
// endpoint's outstanding work while others wait there too.
func (d *decision) exceedsShare(i int, tenant string) bool {
	own := float32(d.loads[i].TenantOutstanding(tenant))
	all := d.live.outstanding[i]
	return own < all && own > d.prof.Envelope.MaxShare*all
}

// rampsUp reports whether an endpoint came back into service and has as many requests
// as its slow start allows.
func (d *decision) rampsUp(i int, meanInflight float32) bool {
	r := d.loads[i].Ramp(d.now)
	return r < 1 && d.live.inflight[i] > r*meanInflight
}
