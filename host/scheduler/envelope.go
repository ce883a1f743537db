package scheduler

import "math"

// envelope marks the candidates that are passed over whatever their scores. If all
// would be, only those at their cap are.
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
	if left < n {
		left += d.readmitCheapest()
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

// readmitCheapest readmits endpoints above the load limit that are still the cheapest
// by the built-in cost, which includes that load: to pass them over would make
// every request wait longer (RATIONALE.md). It returns how many.
func (d *decision) readmitCheapest() (readmitted int) {
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
			readmitted++
		}
	}
	return readmitted
}

// native returns the built-in cost of a column, less the policy's preference.
func (d *decision) native(i int) float32 {
	b := &d.b
	c := d.prof.native.cost(b.Uncached[i], d.live.outstanding[i], d.live.inflight[i], d.live.kv[i], b.Speed[i])
	return c - float32(b.Prefer[i]*preferTokens)
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
