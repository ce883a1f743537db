package scheduler

import (
	"slices"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/quota"
)

// keepOrder bounds the alternatives that a placement keeps for retries. A retry
// budget of 20 % never gets past the second; explain has the whole order.
const keepOrder = 4

// place gathers the candidates, calls the profile's extensions, and chooses and
// charges one candidate. Only the last step holds the lane's lock, so that the
// requests of a burst see each other's charges. Under the lock it calls nothing but
// this package and the counters of endpoint.Load. Extensions see the loads of the
// moment they are called; what is charged afterwards is added to the cost
// (RATIONALE.md, "Why are extensions called outside the lane's lock?").
func (d *decision) place() *DeniedError {
	if err := d.gather(); err != nil {
		return err
	}
	d.deepest()
	if !d.prof.builtin {
		d.callExtensions()
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

// choose picks a column and charges its endpoint as one step. In a dry run nothing
// is charged.
func (d *decision) choose() (charge endpoint.Charge, at int, err *DeniedError) {
	d.model.lane.lock()
	defer d.model.lane.unlock()
	d.refreshLoads()
	d.envelope()
	if at = d.pickAdmitted(); at < 0 {
		if slices.Contains(d.over, reasonCap) {
			return charge, at, d.capacityRefusal()
		}
		return charge, at, errNoEndpoint(unavailable)
	}
	d.expected = d.forecastOf(at)
	if d.mode == modeDryRun {
		return charge, at, nil
	}
	c := &d.cands[d.order[at]]
	d.recordAffinity(c)
	tenant, _ := d.answerOwner()
	c.load.Waits(d.now)
	return c.load.Charge(tenant, int64(c.uncached), d.kv), at, nil
}

// pickAdmitted picks a column that takes requests, -1 if there is none. Where the
// breaker of an endpoint is half-open, the request is its probe; the endpoint is
// left out if another request was first. The lane is locked.
func (d *decision) pickAdmitted() int {
	for range d.b.N {
		d.moves.n = 0
		at := d.overruled()
		if at < 0 {
			at = d.pick()
		}
		if at < 0 || d.mode == modeDryRun || d.loads[at].Admit(d.now) {
			return at
		}
		d.over[at] = reasonProbe
	}
	return -1
}

// overruled returns the column on which policy, the profile's picker or, if the prompt is
// not known, the session places the request, -1 if none of them does.
func (d *decision) overruled() int {
	at, rule := d.pinnedColumn(), RulePin
	if at < 0 {
		at, rule = d.firstPicked(), RulePicker
	}
	if at < 0 && d.known != promptExact && d.deep < 0 && d.arm == armLocality {
		if key := d.sessionKey(); key != 0 {
			at, rule = d.stickyColumn(key), RuleSession
		}
	}
	if at < 0 {
		return -1
	}
	d.costs()
	return d.moved(rule, d.argmin(), at)
}

// classify sets the kind of the placement.
func (d *decision) classify(at int) {
	switch {
	case d.arm == armHoldout:
		d.kind = KindHoldout
	case d.known != promptExact && d.deep < 0:
		d.kind = KindFallback
	case d.deep < 0:
		d.kind = KindCold
	case d.b.Matched[at] >= d.b.Matched[d.deep]:
		d.kind = KindWarm
	default:
		d.kind = KindSpill
	}
}

// markPassed records which candidates were passed over, and why.
func (d *decision) markPassed() {
	for i, at := range d.order {
		if d.over[i] != reasonNone {
			d.cands[at].state, d.cands[at].why = candEnveloped, d.over[i]
		}
	}
}

// recordAffinity records where the conversation and the session are. The lane is
// locked.
func (d *decision) recordAffinity(c *cand) {
	at := home{c.id, d.info(c).Epoch, d.now.UnixNano()}
	if d.branch.root != nil {
		d.model.state.conversations.begin(&d.branch, at.id, at.epoch)
	}
	wanted := d.known != promptExact || d.dec.Affinity.Sticky || d.want.Has(abi.ColSessionMatch)
	if key := d.sessionKey(); key != 0 && wanted {
		d.s.st.sessions.set(key, at)
	}
}

// newPlacement returns the placement of a charged decision. It takes over the
// prompt and the grant.
func (d *decision) newPlacement() *Placement {
	p := d.s.st.getPlacement()
	p.prompt, d.prompt = d.prompt, nil
	p.phase, p.knows = phasePrefill, d.known
	p.textTokens, p.mediaTokens = d.textTokens, d.mediaTokens
	p.tokens, p.kv = d.tokens, d.kv
	p.op, p.asked = d.r.API.Op, d.r.API.Model
	p.model, p.known, p.lane = d.model.name, d.model.state, d.model.lane
	p.tenant, p.user = d.answerOwner()
	p.kind, p.branch, p.session = d.kind, d.branch, d.sessionKey()
	p.grant, d.grant = d.grant, quota.Grant{}
	p.rewrite(d)
	d.rank(p, d.column)
	p.aim(0, d.charge, d.now)
	p.expected = d.expected
	d.charge = endpoint.Charge{}
	return p
}

// rank fills the placement's order: the chosen column, then the others by cost, those
// that were passed over last.
func (d *decision) rank(p *Placement, chosen int) {
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
		pool := &d.model.pools[c.pool]
		p.order[k] = choice{id: c.id, epoch: d.info(c).Epoch, info: d.info(c), load: c.load, pool: pool, class: c.class,
			matched: c.matched, uncached: int64(c.uncached), events: d.snap.Events[c.id], needsSalt: d.needsSalt(pool)}
	}
	p.n, p.at = n, 0
}

// before reports whether column i is preferred to column j.
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
