package scheduler

import "github.com/kvasir-router/kvasir/host/quota"

// keepOrder bounds the alternatives a placement keeps for retries. A retry
// budget of 20 % never gets past the second; explain has the whole order.
const keepOrder = 4

// place is the step that must be one: loads, scores, envelope, pick and charge
// under the decision lock, so that the siblings of a burst see each other.
func (d *decision) place() *DeniedError {
	st := d.s.st
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := d.gather(); err != nil {
		return err
	}
	if d.prof.Unlocked {
		d.askUnlocked()
	} else {
		d.ask()
	}
	d.envelope()
	at := d.choose()
	if at < 0 {
		return errNoEndpoint("none answers")
	}
	d.chosen = d.order[at]
	d.classify(at)
	d.markPassed()
	if !d.charge {
		return nil
	}
	d.remember()
	d.placement = d.chargeLocked(at)
	return nil
}

// choose picks a column and, where its breaker is half-open, takes the probe.
// A probe that another request took first leaves the endpoint out.
func (d *decision) choose() int {
	if d.prof.Picker != nil && !d.holdout {
		d.askPicker()
	}
	for range d.b.N {
		at := d.pinned()
		if at < 0 {
			at = d.firstPicked()
		}
		if at < 0 && !d.exact && !d.holdout {
			if key := d.sessionKey(); key != 0 {
				at = d.sticky(key)
			}
		}
		if at < 0 {
			at = d.pick()
		} else {
			d.costs()
		}
		if at < 0 || !d.charge || d.loads[at].Admit(d.now) {
			return at
		}
		d.over[at] = reasonProbe
	}
	return -1
}

// classify names what kind of placement this is.
func (d *decision) classify(at int) {
	switch {
	case d.holdout:
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

// remember notes where the line and the session are.
func (d *decision) remember() {
	st := d.s.st
	c := &d.cands[d.chosen]
	if d.line.root != nil {
		st.lines.begin(&d.line, c.id, d.info(c).Generation)
	}
	if key := d.sessionKey(); key != 0 && (!d.exact || d.dec.Affinity.Sticky || d.want.Has(ColSessionMatch)) {
		st.sessions.set(key, sessionHome{c.id, d.info(c).Generation})
	}
}

// chargeLocked makes the placement on column at and charges it.
func (d *decision) chargeLocked(at int) *Placement {
	st := d.s.st
	p := st.getPlacement()
	p.prompt, d.prompt = d.prompt, nil
	p.exact = d.exact
	p.tokens, p.kv = d.tokens, d.kvTokens()
	p.model, p.modelKey, p.op, p.asked = d.model.name, d.model.key, d.r.API.Op, d.r.API.Model
	p.tenant, p.user = d.answersOf()
	p.kind, p.line = d.kind, d.line
	p.grant, d.grant = d.grant, quota.Grant{}
	p.rewrite(d)
	d.ranking(p, at)
	st.seq++
	p.seq = st.seq
	st.waiting.push(p)
	p.take(0, d.now)
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
		p.order[k] = choice{id: c.id, gen: d.info(c).Generation, info: d.info(c), load: c.load, pool: &d.model.pools[c.pool],
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
