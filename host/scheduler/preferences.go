package scheduler

import "github.com/kvasir-router/kvasir/host/policy"

// Preferences of a policy's decision: endpoints it prefers, how much a cached prefix
// counts, how much of an endpoint one tenant may have, whether sessions stay. The
// host applies them, for the built-in and for plugins alike, so that no plugin has to
// know them to respect them.

// preferTokens is the cost that a preference of weight 1 outweighs: half a
// second of prefill of an 8B model on one H100, as the envelope's slack. A weight of 0.1 still decides
// between endpoints that are idle.
const preferTokens = 16384

// applyPreferences fills the weights of preferences and scales the credit of cached
// prefixes by the policy's affinity.
func (d *decision) applyPreferences() {
	b := &d.b
	clear(b.Prefer)
	b.Affinity = affinityOf(d.dec) * d.localityWeight()
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

// affinityOf returns the weight that a decision gives cached prefixes, 1 = unchanged.
func affinityOf(d *policy.Decision) float32 {
	if d == nil || !(d.Affinity.Weight > 0) {
		return 1
	}
	return float32(d.Affinity.Weight)
}

// preferred returns by how much preferences reduce a column's cost, in the unit of the
// scores.
func (d *decision) preferred(i int) float32 {
	if d.unit == CostTokens {
		return float32(d.b.Prefer[i] * preferTokens)
	}
	return d.b.Prefer[i]
}

// exceedsPolicyShare reports whether a tenant has more of an endpoint's work,
// outstanding and recent, than policy allows, while others have work there too.
func (d *decision) exceedsPolicyShare(i int, tenant string) bool {
	share := float32(d.dec.Affinity.MaxShare)
	if share <= 0 || share >= 1 {
		return false
	}
	own, all := d.loads[i].TenantWork(tenant, d.now)
	return own < all && all > max(0, d.prof.Envelope.SlackTokens) && own > share*all
}

// pinnedColumn returns the column that policy keeps the request's session on, -1 if it
// keeps none, the session has no home yet, or its home cannot take the request. Load
// does not move a pinned session.
func (d *decision) pinnedColumn() int {
	if !d.dec.Affinity.Sticky {
		return -1
	}
	at := d.homeColumn(d.sessionKey())
	if at >= 0 && (d.over[at] == reasonShare || d.over[at] == reasonProbe || d.over[at] == reasonCap) {
		return -1
	}
	return at
}
