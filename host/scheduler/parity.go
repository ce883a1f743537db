package scheduler

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// A prompt is exact if the router renders and encodes it as the engine does. The engine
// contradicts that by the prompt tokens that it reports: another chat template, another
// tokenizer. Then the blocks that the router computes are those of another prompt at
// least from where the two differ, so that its matches promise too much.

const (
	// parityWindow is the number of answers that are looked at: few enough to notice
	// a model that was replaced, and to recover, within seconds of load.
	parityWindow = 16
	// parityMin answers are needed. Of them parityShare must differ: single differences
	// come from requests that an engine counts in its own way.
	parityMin   = 8
	parityShare = 0.75
	// parityRecover is the greatest share of differing counts at which prompts are
	// exact again.
	parityRecover = 0.25
	// parityTrust weakens the trust in matches on an endpoint that contradicts. Events
	// of the engine name true tokens, so that what they match is there; what is only
	// predicted may not be.
	parityTrust = 0.5
)

// inexactParity is the reason why a prompt is not exact for an endpoint.
const inexactParity = "the engine counts other prompt tokens"

// parity compares token counts by endpoint, for one model. It is safe for concurrent
// use.
type parity struct {
	mu     sync.Mutex // guards counts
	counts map[uint32]*parityCount

	// bad is the epochs of the endpoints that contradict, by slot, 0 = it does not; nil
	// while none has. Written with mu held.
	bad atomic.Pointer[[endpoint.MaxEndpoints]atomic.Uint32]
}

// has reports whether an endpoint contradicts.
func (p *parity) has(id endpoint.ID, epoch uint32) bool {
	bad := p.bad.Load()
	return bad != nil && bad[id].Load() == epoch
}

// setLocked sets whether an endpoint contradicts.
func (p *parity) setLocked(id endpoint.ID, epoch uint32, is bool) {
	bad := p.bad.Load()
	if bad == nil {
		bad = new([endpoint.MaxEndpoints]atomic.Uint32)
		p.bad.Store(bad)
	}
	if !is {
		epoch = 0
	}
	bad[id].Store(epoch)
}

// parityCount is the last answers of one endpoint.
type parityCount struct {
	id     endpoint.ID
	differ uint32 // bit set, the last answer in bit 0
	n      int    // answers in the set
	bad    bool
}

// observe takes the counts of one answer. It reports whether the endpoint contradicts,
// whether that has changed, and how many of the last n counts differed.
func (p *parity) observe(id endpoint.ID, epoch uint32, agrees bool) (bad, changed bool, differ, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts == nil {
		p.counts = map[uint32]*parityCount{}
	}
	c := p.counts[epoch]
	if c == nil {
		p.forgetLocked(id)
		c = &parityCount{id: id}
		p.counts[epoch] = c
	}
	c.differ = c.differ << 1 & (1<<parityWindow - 1)
	if !agrees {
		c.differ |= 1
	}
	c.n = min(c.n+1, parityWindow)
	differ = bits.OnesCount32(c.differ)
	was := c.bad
	switch share := float64(differ) / float64(c.n); {
	case c.n < parityMin:
	case share >= parityShare:
		c.bad = true
	case share <= parityRecover:
		c.bad = false
	}
	if c.bad != was {
		p.setLocked(id, epoch, c.bad)
	}
	return c.bad, c.bad != was, differ, c.n
}

// forgetLocked drops the counts of earlier endpoints of a slot.
func (p *parity) forgetLocked(id endpoint.ID) {
	for epoch, c := range p.counts {
		if c.id == id {
			delete(p.counts, epoch)
		}
	}
}

// ParityStat is what the answers of an endpoint say about a model's prompts.
type ParityStat struct {
	Model        string
	Endpoint     endpoint.ID
	Epoch        uint32
	Differ, Of   int // of the last answers
	Contradicted bool
}

// Parity returns what is known of each model and endpoint, sorted.
func (s *State) Parity() (out []ParityStat) {
	for name, m := range s.models.all() {
		m.parity.mu.Lock()
		for epoch, c := range m.parity.counts {
			out = append(out, ParityStat{Model: name, Endpoint: c.id, Epoch: epoch,
				Differ: bits.OnesCount32(c.differ), Of: c.n, Contradicted: c.bad})
		}
		m.parity.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b ParityStat) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return out
}

// observeParity takes whether the engine counted the prompt's tokens as the router did.
func (p *Placement) observeParity(agrees bool) {
	c := &p.order[p.at]
	bad, changed, differ, n := p.known.parity.observe(c.id, c.epoch, agrees)
	if changed && p.st.cfg.Contradicted != nil {
		p.st.cfg.Contradicted(p.model, c.info.URL, bad, differ, n)
	}
}

// contradicted reports whether the engine of a candidate counts the tokens of the
// model's prompts differently.
func (d *decision) contradicted(c *cand) bool {
	return d.model.state.parity.has(c.id, d.info(c).Epoch)
}

// trustOf returns the weight of what is known of a candidate's cache, in [0, 1].
func (d *decision) trustOf(c *cand) float32 {
	trust := d.snap.Trust[c.id]
	if d.contradicted(c) {
		trust *= parityTrust
	}
	return trust
}
