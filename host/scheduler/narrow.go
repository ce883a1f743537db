package scheduler

import (
	"math/bits"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// narrow lists the endpoints of the model's pools and filters them by what is known
// without the prompt: policy constraints, isolation, model, readiness. Constraints
// of policy are never relaxed.
func (d *decision) narrow() *DeniedError {
	allowed := d.s.st.masks.get(d.snap, d.dec.Constraints)
	home, bound, err := d.continuedAnswer()
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
		salted := d.needsSalt(use)
		others := use.reservedForOther(d.r.Principal)
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
				case salted && (use.NoSalt || d.ignoresSalt(id)):
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

// needsSalt reports whether the engines of a pool must keep the request's cache
// apart by its salt. In a dedicated pool only users and single requests need it.
func (d *decision) needsSalt(use *poolUse) bool {
	return d.salt != "" && d.r.API.Op.HasPrompt() && (d.ownUser() || !use.Dedicated)
}

// nextCand extends cands by one and returns it; it is not cleared.
func (d *decision) nextCand() *cand {
	if n := len(d.cands); n < cap(d.cands) {
		d.cands = d.cands[:n+1]
	} else {
		d.cands = append(d.cands, cand{})
	}
	return &d.cands[len(d.cands)-1]
}

// filterContext drops the endpoints whose context is too short for the request, if
// another is long enough. A request that fits nowhere is sent: the engine may
// truncate it, or refuses it in its own words.
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

// filterCordoned drops cordoned endpoints to which the conversation is new, if
// another endpoint can take it. It is not new to an endpoint that holds half of the
// prompt or is the session's home.
func (d *decision) filterCordoned() {
	home, pinned := d.sessionHome(d.sessionKey())
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
