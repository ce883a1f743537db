package elastic

// request is one request in flight.
type request struct {
	conv, turn int
	arrival    float64 // ms
	prompt     int     // tokens
	output     int
	blocks     []uint64
	private    int // blocks of the answer

	estimate  int // new tokens the router expected
	weight    int // tokens of KV memory the router expected
	done      int // prompt tokens computed or cached
	cached    int
	generated int // tokens of the answer
	first     float64
}

// engine is one machine.
type engine struct {
	id      string
	spec    *Engine
	block   int // tokens
	cache   *cache
	waiting []*request
	running []*request
	chunks  []chunk    // of the step that runs
	decodes []*request // of the step that runs
	busy    bool

	ordered, up float64 // ms: when it was ordered, and from when it serves
	removed     float64 // ms; 0 = it exists
	drain       bool    // takes no requests

	// What the router knows from its own placements.
	assigned map[uint64]int // blocks of requests that were placed here
	prefill  int            // new tokens placed and not computed
	inflight int
	active   int     // KV tokens of requests placed here
	heat     float64 // tokens computed here, fading
	heated   float64 // ms: when heat was computed
}

type chunk struct {
	r *request
	n int
}

func newEngine(id string, spec *Engine, block int, now, up float64) *engine {
	return &engine{id: id, spec: spec, block: block, cache: newCache(spec.KVTokens / block), assigned: map[uint64]int{},
		ordered: now, up: up, heated: now}
}

// match returns how many leading tokens of a prompt the router expects to be cached:
// blocks in the cache, and those of requests that were placed here.
func (e *engine) match(r *request) int {
	has := func(i int) bool { return e.cache.blocks[r.blocks[i]] != nil || e.assigned[r.blocks[i]] > 0 }
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
	return min((lo+1)*e.block, r.prompt-1)
}

// place queues a request on the engine.
func (e *engine) place(r *request) {
	e.prefill += r.estimate
	e.inflight++
	e.active += r.weight
	for _, x := range r.blocks {
		e.assigned[x]++
	}
	e.waiting = append(e.waiting, r)
}

// step begins the next step and returns how long it takes, false if there is
// nothing to do.
func (e *engine) step() (ms float64, ok bool) {
	s := e.spec
	e.chunks, e.decodes = e.chunks[:0], e.decodes[:0]
	room, context, square := s.Budget, 0.0, 0.0
	for _, r := range e.running {
		if r.done >= r.prompt && room > 0 {
			e.decodes = append(e.decodes, r)
			context += float64(r.prompt + r.generated)
			room--
		}
	}
	add := func(r *request) {
		n := min(r.prompt-r.done, room)
		e.chunks = append(e.chunks, chunk{r, n})
		room -= n
		square += float64(n) * (float64(r.done) + float64(n)/2)
		context += float64(r.done)
	}
	for _, r := range e.running {
		if r.done < r.prompt && room > 0 {
			add(r)
		}
	}
	for room > 0 && len(e.waiting) > 0 && len(e.running) < s.Sequences {
		r := e.waiting[0]
		ready, ok := e.cache.admit(r.blocks, r.private)
		if !ok {
			break
		}
		r.cached = min(ready*e.block, r.prompt-1)
		r.done = r.cached
		e.waiting = e.waiting[1:]
		e.running = append(e.running, r)
		add(r)
	}
	tokens := s.Budget - room
	if tokens == 0 {
		e.busy = false
		return 0, false
	}
	e.busy = true
	return s.StepMs + max(s.FloorMs, s.TokenMs*float64(tokens)) + s.ContextMs*context + s.SquareMs*square, true
}

// end ends the running step and returns the requests that are answered.
func (e *engine) end(now float64) []*request {
	for _, c := range e.chunks {
		r := c.r
		from := r.done / e.block
		r.done += c.n
		to := r.done / e.block
		if r.done >= r.prompt {
			to = len(r.blocks)
			e.prefill -= r.estimate
			r.generated, r.first = 1, now
		}
		e.cache.computed(r.blocks, from, to)
		e.warm(now, float64(c.n))
	}
	for _, r := range e.decodes {
		r.generated++
	}
	var out []*request
	keep := e.running[:0]
	for _, r := range e.running {
		if r.done < r.prompt || r.generated < r.output {
			keep = append(keep, r)
			continue
		}
		e.finish(r)
		out = append(out, r)
	}
	e.running = keep
	return out
}

func (e *engine) finish(r *request) {
	e.cache.release(r.blocks, r.private)
	for _, x := range r.blocks {
		if e.assigned[x]--; e.assigned[x] == 0 {
			delete(e.assigned, x)
		}
	}
	e.inflight--
	e.active -= r.weight
}
