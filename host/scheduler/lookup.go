package scheduler

import (
	"math"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// lookup sets the tokens of the prompt that each candidate has cached, and those that
// it has to compute.
func (d *decision) lookup() {
	prompt := float32(d.tokens)
	for i := range d.cands {
		d.cands[i].uncached = prompt
	}
	if d.known == promptEstimated {
		return
	}
	for class := range d.prompt.q.Sizes {
		d.matchClass(class)
	}
}

// matchClass looks up the chain of one block size for the candidates of that size.
func (d *decision) matchClass(class int) {
	loc := &d.s.st.loc
	chain := d.prompt.p.Chains[class]
	size := d.prompt.q.Sizes[class]
	// An engine computes at least one token: min(match, floor((n-1)/block)).
	chain = chain[:min(len(chain), (d.tokens-1)/size)]
	if len(chain) == 0 {
		return
	}
	d.clearDepths(min(loc.Holders, loc.HolderOf(endpoint.ID(d.snap.N), 0)))
	live, assumed, recomputes := 0, 0, d.r.API.NoReuse()
	for i := range d.cands {
		c := &d.cands[i]
		if c.state != candKept || int(c.class) != class || recomputes && dialect.Of(d.info(c).Dialect).WholePrompt {
			continue
		}
		for t := range loc.Tiers {
			h := loc.HolderOf(c.id, t)
			d.holders[h>>6] |= 1 << (h & 63)
		}
		live++
		if d.snap.Events[c.id] != endpoint.EventsLive {
			assumed++
		}
	}
	if live == 0 {
		return
	}
	if loc.Index != nil {
		loc.Index.Match(chain, d.holders, d.depth)
	}
	if loc.Predictor != nil {
		loc.Predictor.Raise(chain, d.holders, d.depth, d.spare)
	}
	if loc.Assumed != nil && assumed > 0 {
		loc.Assumed.Match(chain, d.holders, d.assumed)
	}
	d.setMatches(class, size)
}

// clearDepths gives the scratch the length of n holders and clears it: a lookup costs
// by the endpoints there are, not by those there may be.
func (d *decision) clearDepths(n int) {
	if cap(d.depth) < n {
		room := 2 * n
		d.depth, d.assumed, d.spare = make([]uint32, room), make([]uint32, room), make([]uint32, room)
		d.holders = make([]uint64, (room+63)/64)
	}
	d.depth, d.assumed, d.spare, d.holders = d.depth[:n], d.assumed[:n], d.spare[:n], d.holders[:(n+63)/64]
	clear(d.depth)
	clear(d.assumed)
	clear(d.spare)
	clear(d.holders)
}

// setMatches sets the matched tokens of the candidates of a block size. A lower tier
// counts from where the tiers above it end.
func (d *decision) setMatches(class, size int) {
	loc := &d.s.st.loc
	for i := range d.cands {
		c := &d.cands[i]
		if c.state != candKept || int(c.class) != class {
			continue
		}
		var have uint32
		var worth float32
		for t, weight := range loc.Tiers {
			h := loc.HolderOf(c.id, t)
			depth := d.depth[h]
			if t == 0 && d.snap.Events[c.id] != endpoint.EventsLive {
				depth = max(depth, d.assumed[h])
			}
			tokens := depth * uint32(size)
			if tokens <= have {
				continue
			}
			c.tiers[t] = tokens - have
			worth += float32(float32(tokens-have) * weight)
			have = tokens
		}
		c.matched = have
		trust := d.trustOf(c)
		if d.prof.Distrust {
			trust = 0
		}
		c.uncached = newTokens(float32(d.tokens), worth, trust)
	}
}

// newTokens is new(w,r) of the least-work cost: worth is the sum over tiers of
// matched tokens × tier weight.
func newTokens(prompt, worth, trust float32) float32 {
	return max(1, float32(prompt-float32(worth*trust)))
}

// kvTokens returns the tokens of KV memory that the request is expected to need: its
// prompt and the mean length of the model's answers, at most the length asked for.
func (d *decision) kvTokens() int64 {
	out := d.model.state.output.get()
	if d.maxTokens > 0 {
		out = math.Min(out, float64(d.maxTokens))
	}
	return int64(d.tokens) + int64(out)
}
