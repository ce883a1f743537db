package scheduler

import (
	"math/bits"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/policy"
)

// Reasons a candidate is filtered for. A constraint of policy is never relaxed.
const (
	reasonConstraint = "policy constraint"
	reasonModel      = "model not served"
	reasonSalt       = "no cache isolation"
	reasonContext    = "context too long"
	reasonBreaker    = "breaker open"
	reasonCap        = "at its cap of requests"
)

// narrow lists the endpoints of the model's pools and filters by what is known
// without the prompt: policy constraints, readiness, model, isolation.
func (d *decision) narrow() *DeniedError {
	d.constrain(d.dec.Constraints)
	kept, lost := 0, reasonConstraint
	rank := -1
	for i := range d.model.pools {
		use := &d.model.pools[i]
		for w, word := range d.snap.Pool(use.Name) {
			for ; word != 0; word &= word - 1 {
				id := endpoint.ID(w<<6 | bits.TrailingZeros64(word))
				c := cand{id: id, class: -1, col: -1, info: d.snap.Infos[id], load: d.snap.Loads[id], pool: use}
				if r, why := d.unfit(use, id); why != "" {
					c.state, c.reason = candFiltered, why
					if r > rank {
						rank, lost = r, clientReason[r]
					}
				} else {
					kept++
				}
				d.cands = append(d.cands, c)
			}
		}
	}
	if len(d.cands) == 0 {
		return errNoEndpoint("the model has none")
	}
	if kept == 0 {
		return errNoEndpoint(lost)
	}
	return nil
}

// clientReason is what a client is told, by rank: ranks order the reasons by how
// near an endpoint came to being eligible, and the nearest is told.
var clientReason = [...]string{"none satisfies the policy's constraints", "none has the cache isolation this tenant needs", "none serves this model", "none is ready"}

// unfit returns why an endpoint cannot take the request and that reason's
// rank, "" if it can.
func (d *decision) unfit(use *poolUse, id endpoint.ID) (rank int, why string) {
	switch {
	case !d.allowed.Has(id):
		return 0, reasonConstraint
	case use.NoSalt && d.dec.Salt != "":
		return 1, reasonSalt
	case !d.snap.Serves(id, use.served):
		return 2, reasonModel
	case !d.snap.Ready.Has(id):
		return 3, d.snap.Reasons[id]
	}
	return 0, ""
}

// constrain sets d.allowed to the endpoints that satisfy every constraint.
func (d *decision) constrain(cs []policy.Constraint) {
	d.allowed = d.allowed[:cap(d.allowed)]
	clear(d.allowed)
	d.allowed.Or(d.snap.Live)
	for i := range cs {
		c := &cs[i]
		clear(d.label)
		for _, v := range c.Values {
			d.label.Or(d.snap.Label(c.Label, v))
		}
		if c.NotIn {
			d.allowed.AndNot(d.label)
		} else {
			d.allowed.And(d.label)
		}
	}
}

// filterContext drops the endpoints whose context the request does not fit.
func (d *decision) filterContext(param string) *DeniedError {
	need := d.tokens + max(1, d.maxTokens)
	kept, longest := 0, 0
	for i := range d.cands {
		c := &d.cands[i]
		if c.state != candKept {
			continue
		}
		if limit := int(d.snap.MaxModelLen[c.id]); limit > 0 && need > limit {
			longest = max(longest, limit)
			c.state, c.reason = candFiltered, reasonContext
			continue
		}
		kept++
	}
	if kept == 0 {
		return errTooLong(d.tokens, d.maxTokens, longest, param)
	}
	return nil
}

// gather fills the batch with the candidates that are not filtered, their
// breaker closed and below their cap. The loads are those of this instant, so
// it runs under the decision lock. It reports why nobody is left.
func (d *decision) gather() *DeniedError {
	d.resize(len(d.cands))
	n, capped := 0, false
	v := d.snap
	for i := range d.cands {
		c := &d.cands[i]
		if c.state != candKept {
			continue
		}
		if c.load.Open(d.now) {
			c.state, c.reason = candFiltered, reasonBreaker
			continue
		}
		inflight := c.load.Inflight()
		if c.pool.MaxInflight > 0 && inflight >= int64(c.pool.MaxInflight) {
			c.state, c.reason, capped = candFiltered, reasonCap, true
			continue
		}
		b := &d.b
		c.col = int32(n)
		d.order[n], d.loads[n], b.Endpoints[n] = int32(i), c.load, c.id
		b.Matched[n], b.Uncached[n], b.Trust[n] = float32(c.matched), c.uncached, c.trust
		b.Inflight[n], b.Outstanding[n], b.KVActive[n] = float32(inflight), float32(c.load.Outstanding()), float32(c.load.KVActive())
		b.Running[n], b.Waiting[n], b.KVUsage[n] = float32(v.Running[c.id]), float32(v.Waiting[c.id]), v.KVUsage[c.id]
		b.AgeMS[n] = v.AgeMS(c.id, d.now)
		d.rates[n] = c.load.PrefillRate()
		n++
	}
	if n == 0 && capped {
		return errCapacity()
	}
	if n == 0 {
		return errNoEndpoint("none answers")
	}
	d.resize(n)
	fillSpeeds(d.b.Speed, d.rates)
	d.b.PromptTokens, d.b.MaxTokens, d.b.Seed = uint32(d.tokens), uint32(d.maxTokens), d.seed
	d.b.NowMS = float64(d.now.UnixNano()) / float64(time.Millisecond)
	return nil
}

// resize gives the per-candidate scratch room for n.
func (d *decision) resize(n int) {
	d.b.resize(n)
	if cap(d.order) < n {
		m := (n + 15) &^ 15
		d.order, d.loads, d.rates = make([]int32, m), make([]*endpoint.Load, m), make([]float32, m)
		d.total, d.lines, d.allLine = make([]float32, m), make([]float32, m), make([]float32, m)
		d.over, d.joins = make([]passed, m), make([]bool, m)
	}
	d.order, d.loads, d.rates = d.order[:n], d.loads[:n], d.rates[:n]
	d.total, d.lines, d.allLine = d.total[:n], d.lines[:n], d.allLine[:n]
	d.over, d.joins = d.over[:n], d.joins[:n]
}
