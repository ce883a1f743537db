package scheduler

import "github.com/kvasir-router/kvasir/host/policy"

// What a policy's decision wishes beside what it demands: endpoints it prefers,
// how much a cached prefix counts, how much of an endpoint one tenant may hold,
// whether sessions stay. These are done here, for the built-in and for plugins
// alike, so that no plugin has to know of them to obey.

// preferTokens is the cost that a preference of weight 1 outweighs: half a
// second of prefill of an 8B model on one H100, what the envelope's slack is
// too. A weight of 0.1 still decides between endpoints that are idle.
const preferTokens = 16384

// wish fills the batch's columns of what policy wishes: the weights of
// preferences, and the credit of a cached prefix scaled by the affinity.
func (d *decision) wish() {
	b := &d.b
	clear(b.Prefer)
	b.Affinity = affinityOf(d.dec)
	if w := b.Affinity; w != 1 {
		for i, u := range b.Uncached {
			b.Uncached[i] = newTokens(float32(d.tokens), float32(d.tokens)-u, w)
		}
	}
	for k := range d.dec.Prefer {
		p := &d.dec.Prefer[k]
		for _, v := range p.Values {
			set := d.snap.Label(p.Label, v)
			if set == nil {
				continue
			}
			for i, id := range b.Endpoints {
				if set.Has(id) { // a label has one value: no endpoint counts twice
					b.Prefer[i] += float32(p.Weight)
				}
			}
		}
	}
}

// affinityOf returns how much a decision lets a cached prefix count, 1 = as it is.
func affinityOf(d *policy.Decision) float32 {
	if d == nil || !(d.Affinity.Weight > 0) {
		return 1
	}
	return float32(d.Affinity.Weight)
}

// preferred is what the preferences take off a column's cost, in the unit of
// the scores.
func (d *decision) preferred(i int) float32 {
	if d.unit == CostTokens {
		return float32(d.b.Prefer[i] * preferTokens)
	}
	return d.b.Prefer[i]
}

// holdsShare reports whether a tenant holds more of an endpoint's work,
// outstanding and recent, than policy lets it, while others have work there too.
func (d *decision) holdsShare(i int, tenant string) bool {
	share := float32(d.dec.Affinity.MaxShare)
	if share <= 0 || share >= 1 {
		return false
	}
	own, all := d.loads[i].TenantWork(tenant, d.now)
	return own < all && all > max(0, d.prof.Envelope.SlackTokens) && own > share*all
}

// pinned returns the column that policy has the request's session stay on, or
// -1: it is not pinned, has no home yet, or its home may not take it. Load is no
// reason to move a pinned session.
func (d *decision) pinned() int {
	if !d.dec.Affinity.Sticky {
		return -1
	}
	at := d.home(d.sessionKey())
	if at >= 0 && (d.over[at] == reasonShare || d.over[at] == reasonProbe || d.over[at] == reasonCap) {
		return -1
	}
	return at
}
