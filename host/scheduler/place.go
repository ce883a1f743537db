package scheduler

import (
	"slices"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/quota"
)

// keepOrder bounds the alternatives a placement keeps for retries. A retry
// budget of 20 % never gets past the second; explain has the whole order.
const keepOrder = 4

// place gathers the candidates, has them rated, and chooses and charges one. Only
// the last is done with the lane locked, so that the siblings of a burst see each
// other's charges: what it calls there is this package's own and the counters of
// endpoint.Load. Extensions are called before, on the loads of that moment; what
// was charged meanwhile is added to the cost (RATIONALE.md, "Why are extensions
// called outside the lane's lock?").
func (d *decision) place() *DeniedError {
	if err := d.gather(); err != nil {
		return err
	}
	d.deepest()
	if !d.prof.builtin {
		d.ask()
	}
	d.kv = d.kvTokens()
	charge, at, err := d.choose()
	if err != nil {
		return err
	}
	d.chosen, d.charge = d.order[at], charge
	d.column = at
	d.classify(at)
	d.markPassed()
	return nil
}

// choose picks a column and charges it, as one step. In a dry run nothing is
// charged.
func (d *decision) choose() (charge endpoint.Charge, at int, err *DeniedError) {
	d.model.lane.lock()
	defer d.model.lane.unlock()
	d.rate()
	d.envelope()
	if at = d.pickAdmitted(); at < 0 {
		if slices.Contains(d.over, reasonCap) {
			return charge, at, d.full()
		}
		return charge, at, errNoEndpoint(unavailable)
	}
	if d.mode == modeDryRun {
		return charge, at, nil
	}
	c := &d.cands[d.order[at]]
	d.remember(c)
	tenant, _ := d.answersOf()
	return c.load.Charge(tenant, int64(c.uncached), d.kv), at, nil
}

// pickAdmitted picks a column and, where its breaker is half-open, takes the
// probe. A probe that another request took first leaves the endpoint out. It
// returns -1 if none is left. The lane is locked.
func (d *decision) pickAdmitted() int {
	for range d.b.N {
		at := d.pinned()
		if at < 0 {
			at = d.firstPicked()
		}
		if at < 0 && !d.exact && d.arm == armLocality {
			if key := d.sessionKey(); key != 0 {
				at = d.sticky(key)
			}
		}
		if at < 0 {
			at = d.pick()
		} else {
			d.costs()
		}
		if at < 0 || d.mode == modeDryRun || d.loads[at].Admit(d.now) {
			return at
		}
		d.over[at] = reasonProbe
	}
	return -1
}

// classify names what kind of placement this is.
func (d *decision) classify(at int) {
	switch {
	case d.arm == armHoldout:
		d.kind = KindHoldout
	case !d.exact:
		d.kind = KindFallback
	case d.deep < 0:
		d.kind = KindCold
	case d.b.Matched[at] >= d.b.Matched[d.deep]:
		d.kind = KindWarm
	default:
		d.kind = KindSpill
	}
}

// markPassed writes the envelope's verdicts to the candidates.
func (d *decision) markPassed() {
	for i, at := range d.order {
		if d.over[i] != reasonNone {
			d.cands[at].state, d.cands[at].why = candEnveloped, d.over[i]
		}
	}
}

// remember notes where the conversation and the session are.
func (d *decision) remember(c *cand) {
	at := home{c.id, d.info(c).Epoch}
	if d.branch.root != nil {
		d.model.state.conversations.begin(&d.branch, at.id, at.epoch)
	}
	if key := d.sessionKey(); key != 0 && (!d.exact || d.dec.Affinity.Sticky || d.want.Has(ColSessionMatch)) {
		d.s.st.sessions.set(key, at)
	}
}

// newPlacement returns the placement of a decision that is charged. It takes over
// the prompt and the grant.
func (d *decision) newPlacement() *Placement {
	p := d.s.st.getPlacement()
	p.prompt, d.prompt = d.prompt, nil
	p.exact = d.exact
	p.tokens, p.kv = d.tokens, d.kv
	p.op, p.asked = d.r.API.Op, d.r.API.Model
	p.model, p.known, p.lane = d.model.name, d.model.state, d.model.lane
	p.tenant, p.user = d.answersOf()
	p.kind, p.branch = d.kind, d.branch
	p.grant, d.grant = d.grant, quota.Grant{}
	p.rewrite(d)
	d.ranking(p, d.column)
	p.aim(0, d.charge, d.now)
	d.charge = endpoint.Charge{}
	return p
}

// ranking fills the placement's order: the choice, then the others by cost,
// those the envelope passed over last.
func (d *decision) ranking(p *Placement, chosen int) {
	var cols [keepOrder]int
	cols[0] = chosen
	n := 1
	for i := range d.b.N {
		if i == chosen {
			continue
		}
		k := n
		for k > 1 && d.before(i, cols[k-1]) {
			k--
		}
		if k == keepOrder {
			continue
		}
		if n < keepOrder {
			n++
		}
		copy(cols[k+1:n], cols[k:n-1])
		cols[k] = i
	}
	for k, col := range cols[:n] {
		c := &d.cands[d.order[col]]
		p.order[k] = choice{id: c.id, gen: d.info(c).Epoch, info: d.info(c), load: c.load, pool: &d.model.pools[c.pool],
			class: c.class, matched: c.matched, uncached: int64(c.uncached), live: d.snap.Events[c.id], apart: d.apart(&d.model.pools[c.pool])}
	}
	p.n, p.at = n, 0
}

func (d *decision) before(i, j int) bool {
	if a, b := d.over[i] == reasonNone, d.over[j] == reasonNone; a != b {
		return a
	}
	if len(d.picked) > 0 {
		if a, b := d.pickedAt(i), d.pickedAt(j); a != b {
			return a < b
		}
	}
	return d.less(i, j)
}
