package elastic

import (
	"time"

	"github.com/kvasir-router/kvasir/host/replay/virtual"
	"github.com/kvasir-router/kvasir/host/simengine"
)

// request is one request in flight.
type request struct {
	conv, turn int
	arrival    float64 // ms
	prompt     int     // tokens
	output     int
	blocks     []uint64

	estimate int // new tokens the router expected
	weight   int // tokens of KV memory the router expected
	first    float64
	seq      simengine.Sequence
}

// engine is one machine: the model of package simengine, and what the router knows.
type engine struct {
	id    string
	spec  *virtual.Engine
	model *simengine.Model
	held  map[uint64]struct{} // blocks in the cache, by the model's events
	busy  bool

	ordered, up float64 // ms: when it was ordered, and from when it serves
	removed     float64 // ms; 0 = it exists
	drain       bool    // takes no requests

	// What the router knows from its own placements.
	assigned map[uint64]int // blocks of requests that were placed here
	prefill  int            // new tokens placed and not computed
	inflight int
	active   int     // KV tokens of requests placed here
	computed uint64  // tokens that the model had computed at the end of the last step
	heat     float64 // tokens computed here, fading
	heated   float64 // ms: when heat was computed
}

func newEngine(id string, spec *virtual.Engine, now, up float64) *engine {
	return &engine{id: id, spec: spec, held: map[uint64]struct{}{}, assigned: map[uint64]int{}, ordered: now, up: up,
		heated: now, model: simengine.NewModel(simengine.ModelConfig{Timing: spec.Timing, BlockTokens: spec.BlockTokens,
			CacheBlocks: spec.CacheTokens / spec.BlockTokens, MaxSeqs: virtual.DefaultSeqs})}
}

// match returns how many leading tokens of a prompt the router expects to be cached:
// blocks in the cache, and those of requests that were placed here.
func (e *engine) match(r *request) int {
	has := func(i int) bool {
		_, held := e.held[r.blocks[i]]
		return held || e.assigned[r.blocks[i]] > 0
	}
	if len(r.blocks) == 0 || !has(0) {
		return 0
	}
	lo, hi, step := 0, 1, 1 // lo is cached; gallop, then bisect: what is cached is a prefix
	for hi < len(r.blocks) && has(hi) {
		lo, step = hi, 2*step
		hi += step
	}
	hi = min(hi, len(r.blocks))
	for lo+1 < hi {
		if m := (lo + hi) / 2; has(m) {
			lo = m
		} else {
			hi = m
		}
	}
	return min((lo+1)*e.spec.BlockTokens, r.prompt-1)
}

// place queues a request on the engine.
func (e *engine) place(r *request) {
	e.prefill += r.estimate
	e.inflight++
	e.active += r.weight
	for _, x := range r.blocks {
		e.assigned[x]++
	}
	r.seq = simengine.Sequence{Prompt: r.prompt, Output: r.output, Hashes: r.blocks, Data: r}
	e.model.Add(&r.seq)
}

// step begins the next step and returns how long it takes, false if there is
// nothing to do.
func (e *engine) step() (ms float64, ok bool) {
	d, ok := e.model.Plan()
	e.busy = ok
	return float64(d) / float64(time.Millisecond), ok
}

// end ends the running step and returns the requests that are answered.
func (e *engine) end(now float64) (done []*request) {
	advanced := e.model.Complete()
	for _, v := range e.model.Events() {
		if v.Seq == nil {
			delete(e.held, v.Removed)
			continue
		}
		for _, h := range v.Seq.Hashes[v.From:v.To] {
			e.held[h] = struct{}{}
		}
	}
	for _, s := range advanced {
		r := s.Data.(*request)
		if s.Generated == 1 {
			e.prefill -= r.estimate
			r.first = now
		}
		if s.Done() {
			e.finish(r)
			done = append(done, r)
		}
	}
	n := e.model.Stats().StepTokens
	e.warm(now, float64(n-e.computed))
	e.computed = n
	return done
}

func (e *engine) finish(r *request) {
	for _, x := range r.blocks {
		if e.assigned[x]--; e.assigned[x] == 0 {
			delete(e.assigned, x)
		}
	}
	e.inflight--
	e.active -= r.weight
}
