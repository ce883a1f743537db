package kvindex

import "math/rand/v2"

// event is one store or removal as engines send it.
type event struct {
	holder            int
	remove, hasParent bool
	parent            uint64
	eng, own          []uint64
}

// blocks is a list of blocks in both namings.
type blocks struct{ eng, own []uint64 }

func (c *blocks) grow(root uint64, n int, rng *rand.Rand) {
	for range n {
		if k := len(c.own); k > 0 {
			root = c.own[k-1]
		}
		own := mixHash(root, rng.Uint64()|1)
		c.own = append(c.own, own)
		c.eng = append(c.eng, engHash(own))
	}
}

func (c blocks) slice(a, b int) blocks { return blocks{c.eng[a:b], c.own[a:b]} }

// send emits the events that store blocks behind a parent.
func (c blocks) send(h int, parent uint64, has bool, emit func(event)) {
	for len(c.own) > 0 {
		k := min(512, len(c.own))
		emit(event{holder: h, hasParent: has, parent: parent, eng: c.eng[:k], own: c.own[:k]})
		parent, has = c.eng[k-1], true
		c = c.slice(k, len(c.own))
	}
}

// conversation is private blocks behind a system prompt.
type conversation struct {
	prompt int
	chain  blocks
	turns  int
	decode int // blocks still to come in this turn
}

// engine is what one endpoint of a generator does.
type engine struct {
	active []*conversation
	old    []blocks // finished conversations, oldest first
	held   int
	prompt []bool
}

// generator makes events of endpoints that serve conversations on shared system
// prompts: a prefill event per turn, one event per decoded block, eviction of
// the oldest conversation from its end.
type generator struct {
	rng     *rand.Rand
	active  int // conversations at once
	limit   int // blocks an endpoint can hold; 0: no eviction
	pairs   int // (block, holder) pairs at this point
	prompts []blocks
	who     [][]int // endpoints that use a prompt
	engines []engine
	// ask, if set, is called for every turn with the endpoint that gets it, the
	// leading blocks that it holds and the request's blocks.
	ask  func(h, held int, own []uint64)
	path []uint64
}

// newGenerator plans for total pairs of which about a fifth are shared system
// prompts (400 blocks each), every one used by at most 64 endpoints.
func newGenerator(holders, total int, seed uint64) *generator {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 77)), active: 6, engines: make([]engine, holders)}
	per := min(holders, 64)
	n := max(4, total/5/400/per)
	for i := range n {
		var c blocks
		c.grow(1000+uint64(i), 100+g.rng.IntN(601), g.rng)
		g.prompts = append(g.prompts, c)
		g.who = append(g.who, g.rng.Perm(holders)[:per])
	}
	for i := range g.engines {
		g.engines[i].prompt = make([]bool, n)
	}
	return g
}

// step emits the next few events of one endpoint and returns the block
// operations in them.
func (g *generator) step(emit func(event)) (ops int) {
	h := g.rng.IntN(len(g.engines))
	E := &g.engines[h]
	if len(E.active) < g.active {
		p := g.choosePrompt(h)
		ops += g.usePrompt(h, p, emit)
		E.active = append(E.active, &conversation{prompt: p, turns: 3 + g.rng.IntN(8)})
	}
	i := g.rng.IntN(len(E.active))
	c := E.active[i]
	switch {
	case c.decode > 0:
		c.decode--
		ops += g.extend(h, c, 1, emit)
	case c.turns > 0:
		if len(c.chain.own) > 0 && g.rng.IntN(10) == 0 {
			h, ops = g.migrate(h, i, ops, emit)
		}
		k := 30 + g.rng.IntN(221)
		if g.ask != nil {
			g.path = append(append(g.path[:0], g.prompts[c.prompt].own...), c.chain.own...)
			g.ask(h, len(g.path), g.path)
		}
		ops += g.extend(h, c, k, emit)
		c.turns--
		c.decode = 8 + g.rng.IntN(33)
	default:
		E.old = append(E.old, c.chain)
		E.active[i] = E.active[len(E.active)-1]
		E.active = E.active[:len(E.active)-1]
	}
	return ops + g.evict(h, emit)
}

func (g *generator) choosePrompt(h int) int {
	p := g.rng.IntN(len(g.prompts))
	if g.engines[h].prompt[p] {
		return p
	}
	for range 4 { // take one that is used here
		q := g.rng.IntN(len(g.prompts))
		for _, w := range g.who[q] {
			if w == h {
				p = q
			}
		}
	}
	return p
}

func (g *generator) usePrompt(h, p int, emit func(event)) int {
	E := &g.engines[h]
	if E.prompt[p] {
		return 0
	}
	E.prompt[p] = true
	c := g.prompts[p]
	c.send(h, 0, false, emit)
	E.held += len(c.own)
	g.pairs += len(c.own)
	return len(c.own)
}

// extend lets h store k more blocks of a conversation.
func (g *generator) extend(h int, c *conversation, k int, emit func(event)) int {
	p := g.prompts[c.prompt]
	parent := p.eng[len(p.eng)-1]
	n := len(c.chain.own)
	if n > 0 {
		parent = c.chain.eng[n-1]
	}
	c.chain.grow(p.own[len(p.own)-1], k, g.rng)
	c.chain.slice(n, n+k).send(h, parent, true, emit)
	g.engines[h].held += k
	g.pairs += k
	return k
}

// migrate moves conversation i of h to another endpoint, as if a router had
// sent a turn elsewhere.
func (g *generator) migrate(h, i, ops int, emit func(event)) (int, int) {
	to := g.rng.IntN(len(g.engines))
	if to == h {
		return h, ops
	}
	E, T := &g.engines[h], &g.engines[to]
	c := E.active[i]
	ops += g.usePrompt(to, c.prompt, emit)
	p := g.prompts[c.prompt].eng
	c.chain.send(to, p[len(p)-1], true, emit)
	n := len(c.chain.own)
	T.held += n
	g.pairs += n
	E.old = append(E.old, c.chain.slice(0, n))
	E.active[i] = E.active[len(E.active)-1]
	E.active = E.active[:len(E.active)-1]
	T.active = append(T.active, c)
	return to, ops + n
}

// evict removes blocks from the end of h's oldest conversations.
func (g *generator) evict(h int, emit func(event)) (ops int) {
	E := &g.engines[h]
	for g.limit > 0 && E.held > g.limit && len(E.old) > 0 {
		c := &E.old[0]
		k := min(len(c.eng), 4+g.rng.IntN(29))
		emit(event{holder: h, remove: true, eng: reversed(c.eng[len(c.eng)-k:])})
		c.eng = c.eng[:len(c.eng)-k]
		if len(c.eng) == 0 {
			E.old = E.old[1:]
		}
		ops += k
		E.held -= k
		g.pairs -= k
	}
	return ops
}

// query is one lookup: the request's blocks and how many leading ones each
// endpoint holds.
type query struct {
	own  []uint64
	want []uint32
}

// deepChains builds n chains of 8,192 blocks: a system prompt of 512 held by
// five of eight endpoints, a conversation in turns that four endpoints held one
// after the other (to 1000, 4000, 6000, all). The chains' events are
// interleaved, one of each in turn, as from engines that serve many
// conversations at once.
func deepChains(holders, n int, rng *rand.Rand, out func(event)) []query {
	prompts, who := make([]blocks, 8), make([][]int, 8)
	for i := range prompts {
		prompts[i].grow(uint64(5000+i), 512, rng)
		who[i] = rng.Perm(holders)[:max(1, holders*5/8)]
		for _, h := range who[i] {
			prompts[i].send(h, 0, false, out)
		}
	}
	qs, lists := make([]query, n), make([][]event, n)
	for i := range qs {
		p := i % len(prompts)
		qs[i], lists[i] = deepChain(holders, prompts[p], who[p], rng)
	}
	for k, more := 0, true; more; k++ {
		more = false
		for _, l := range lists {
			if k < len(l) {
				out(l[k])
				more = true
			}
		}
	}
	return qs
}

func deepChain(holders int, prompt blocks, who []int, rng *rand.Rand) (q query, list []event) {
	const length = 8192
	q.want = make([]uint32, holders)
	for _, h := range who {
		q.want[h] = 512
	}
	c := blocks{append([]uint64(nil), prompt.eng...), append([]uint64(nil), prompt.own...)}
	c.grow(0, length-512, rng)
	q.own = c.own
	emit := func(e event) { list = append(list, e) }
	perm := append([]int(nil), who...)
	rng.Shuffle(len(perm), func(i, j int) { perm[i], perm[j] = perm[j], perm[i] })
	perm = perm[:min(4, len(perm))]
	done := 512
	for k, h := range perm {
		end := []int{1000, 4000, 6000, length}[4-len(perm)+k]
		c.slice(512, done).send(h, c.eng[511], true, emit)
		for done < end { // turns
			t := min(end-done, 60+rng.IntN(240))
			c.slice(done, done+t).send(h, c.eng[done-1], true, emit)
			done += t
			for d := min(end-done, 8+rng.IntN(24)); d > 0; d-- {
				c.slice(done, done+1).send(h, c.eng[done-1], true, emit)
				done++
			}
		}
		q.want[h] = uint32(end)
	}
	return q, list
}
