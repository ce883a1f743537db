package scheduler

import (
	"math/bits"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// narrow lists the endpoints of the model's pools and filters by what is known
// without the prompt: policy constraints, isolation, model, readiness. A
// constraint of policy is never relaxed.
func (d *decision) narrow() *DeniedError {
	allowed := d.s.st.masks.get(d.snap, d.dec.Constraints)
	home, bound, err := d.continues()
	if err != nil {
		return err
	}
	kept, nearest := 0, reasonNone
	for i := range d.model.pools {
		use := &d.model.pools[i]
		serving, unknown := d.snap.Models(use.served)
		lora := d.snap.Adapter(use.served)
		if lora != nil && d.adapter == "" {
			d.adapter = use.served
		}
		apart := d.apart(use)
		others := use.keptFrom(d.r.Principal)
		for w, word := range d.snap.Pool(use.Name) {
			for ; word != 0; word &= word - 1 {
				id := endpoint.ID(w<<6 | bits.TrailingZeros64(word))
				c := d.nextCand()
				c.id, c.class, c.col, c.load, c.pool = id, -1, -1, d.snap.Loads[id], uint8(i)
				c.matched, c.tiers, c.state, c.why = 0, [MaxTiers]uint32{}, candKept, reasonNone
				switch {
				case others:
					c.why = reasonTenant
				case !allowed.Has(id):
					c.why = reasonConstraint
				case apart && (use.NoSalt || d.unsalted(id)):
					c.why = reasonSalt
				case bound && id != home.id:
					c.why = reasonState
				case !serving.Has(id) && !unknown.Has(id) && !lora.Has(id):
					c.why = reasonModel
				case !d.snap.Ready.Has(id):
					c.why = reasonReady
				}
				if c.why == reasonNone {
					kept++
				} else {
					c.state = candFiltered
					nearest = max(nearest, c.why)
				}
			}
		}
	}
	if kept == 0 {
		return errNoEndpoint(reasons[nearest].refusal)
	}
	return nil
}

// apart reports whether the request's cache must be kept apart from others' in a
// pool. On engines that are one tenant's, users and single requests need salts.
func (d *decision) apart(use *poolUse) bool {
	within := d.ownUser()
	return d.salt != "" && d.r.API.Op.HasPrompt() && (within || !use.Dedicated)
}

// nextCand extends cands by one, which is not cleared.
func (d *decision) nextCand() *cand {
	if n := len(d.cands); n < cap(d.cands) {
		d.cands = d.cands[:n+1]
	} else {
		d.cands = append(d.cands, cand{})
	}
	return &d.cands[len(d.cands)-1]
}

// filterContext drops the endpoints whose context the request does not fit, as
// long as it fits somewhere. What fits nowhere goes on: an engine knows better
// than we what it takes (it may truncate), and refuses the rest in its own words.
func (d *decision) filterContext() {
	need := d.tokens + max(1, d.maxTokens)
	fits := func(c *cand) bool {
		limit := int(d.snap.MaxModelLen[c.id])
		return limit == 0 || need <= limit
	}
	kept := 0
	for i := range d.cands {
		if c := &d.cands[i]; c.state == candKept && fits(c) {
			kept++
		}
	}
	if kept == 0 {
		return
	}
	for i := range d.cands {
		if c := &d.cands[i]; c.state == candKept && !fits(c) {
			c.state, c.why = candFiltered, reasonContext
		}
	}
}

// filterCordoned keeps conversations that are new to a cordoned endpoint away
// from it, as long as another can take them. A conversation is known there if
// half of the prompt is, or if it is the session's home.
func (d *decision) filterCordoned() {
	home, pinned := d.sessionHome()
	stays := func(c *cand) bool {
		return !d.snap.Cordoned.Has(c.id) || d.tokens > 0 && 2*int(c.matched) >= d.tokens ||
			pinned && home.id == c.id && home.epoch == d.info(c).Epoch
	}
	some := false
	for i := range d.cands {
		c := &d.cands[i]
		some = some || c.state == candKept && stays(c)
	}
	if !some {
		return
	}
	for i := range d.cands {
		if c := &d.cands[i]; c.state == candKept && !stays(c) {
			c.state, c.why = candFiltered, reasonCordoned
		}
	}
}

// gather fills the batch with the candidates that are not filtered, their
// breaker closed and below their cap. It reports why none is left. Loads are
// filled where extensions see them; the choice reads them again.
func (d *decision) gather() *DeniedError {
	d.resize(len(d.cands))
	n, capped := 0, false
	v, b := d.snap, &d.b
	for i := range d.cands {
		c := &d.cands[i]
		if c.state != candKept {
			continue
		}
		if c.load.Open(d.now) {
			c.state, c.why = candFiltered, reasonBreaker
			continue
		}
		if limit := d.model.pools[c.pool].MaxInflight; limit > 0 && c.load.Inflight() >= int64(limit) {
			c.state, c.why, capped = candFiltered, reasonCap, true
			continue
		}
		c.col = int32(n)
		d.order[n], d.loads[n], b.Endpoints[n] = int32(i), c.load, c.id
		b.Matched[n], b.Uncached[n], b.Trust[n] = float32(c.matched), c.uncached, v.Trust[c.id]
		b.Rates[n] = c.load.PrefillRate()
		n++
	}
	if n == 0 && capped || n > 0 && d.waits() {
		return d.full()
	}
	if n == 0 {
		return errNoEndpoint(unavailable)
	}
	d.resize(n)
	fillSpeeds(b.Speed, b.Rates)
	d.wish()
	d.live = b.loads()
	if !d.prof.builtin {
		d.read(d.live)
		d.want = d.prof.reads()
		b.Capped = capped
		d.gatherMore()
	}
	b.PromptTokens, b.MaxTokens, b.Seed = uint32(d.tokens), uint32(d.maxTokens), d.seed
	b.NowMS = millis(d.now)
	return nil
}

// millis returns a time in Unix milliseconds.
func millis(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Millisecond) }

// gatherMore fills what the built-in does not look at and somebody wants.
func (d *decision) gatherMore() {
	v, b := d.snap, &d.b
	reported, tiers, infos := d.want.Has(ColReported), d.want.Has(ColTiers), d.want.Has(ColInfos)
	for i, id := range b.Endpoints {
		if reported {
			b.Running[i], b.Waiting[i], b.KVUsage[i] = float32(v.Running[id]), float32(v.Waiting[id]), v.KVUsage[id]
			b.AgeMS[i] = v.AgeMS(id, d.now)
		}
		if infos {
			b.Infos[i] = v.Infos[id]
		}
		if tiers {
			for t, n := range d.cands[d.order[i]].tiers {
				b.Tiers[t][i] = float32(n)
			}
		}
	}
	d.fillMore(d.want)
	b.Priority, b.Adapter = float32(d.dec.Priority), d.adapter
	b.Op, b.BodyBytes, b.Session, b.Model = d.r.API.Op, len(d.r.API.Body), d.sessionKey(), d.model.name
	if b.Tenant = 0; d.r.Principal != nil {
		b.Tenant = d.s.st.hashID(d.r.Principal.Tenant)
	}
}

// resize gives the per-candidate scratch room for n.
func (d *decision) resize(n int) {
	d.b.resize(n)
	if cap(d.order) < n {
		m := (n + 15) &^ 15
		d.order, d.loads = make([]int32, m), make([]*endpoint.Load, m)
		d.drop, d.mask = make([]uint32, m), make([]uint32, m)
		for k := range d.parts {
			d.parts[k] = nil
		}
		d.total, d.groupCounts, d.modelCounts = make([]float32, m), make([]float32, m), make([]float32, m)
		d.over, d.joins = make([]reason, m), make([]bool, m)
	}
	d.order, d.loads = d.order[:n], d.loads[:n]
	d.drop, d.mask = d.drop[:n], d.mask[:n]
	d.total, d.groupCounts, d.modelCounts = d.total[:n], d.groupCounts[:n], d.modelCounts[:n]
	d.over, d.joins = d.over[:n], d.joins[:n]
}
