package scheduler

import "github.com/kvasir-router/kvasir/host/endpoint"

// A line is a row of requests each of which continues the prompt of the one
// before: a conversation, an agent's loop. A line begins where a prompt leaves
// what is known, and where it begins is where its cached blocks will pile up;
// so that choice is one for the long run, and a cost that knows this request
// only cannot make it. The line table tells beginnings from continuations and
// counts where lines began (RATIONALE.md: "Why does a shared system prompt not
// pull all traffic to one endpoint?").
//
// A prompt's longest known match ends at some block. If other requests have
// left the known at that same block before, the prompt branches off a shared
// prefix and begins a line; if none has, it continues one.
type lineTable struct {
	roots  map[uint64]*lineGroup // by model: all its lines
	groups map[uint64]*lineGroup // by hash of a shared prefix's last block
	firsts []firstLeave          // [firstSets × firstWays] blocks left once
	tick   uint32
}

const (
	// maxGroups shared prefixes are known; beyond it the least recently used
	// of a sample goes. Each takes 8 bytes per endpoint.
	maxGroups = 4096
	maxRoots  = 1024
	// 64 Ki blocks left once, 1 MiB: the continuations of the last minutes at
	// 1,000 requests/s.
	firstSets = 1 << 14
	firstWays = 4
	// decayLines halves all counts: old lines are over. A thousand keeps the
	// share of a prefix to a few per cent.
	decayLines = 1024
	// copyLines lines began on each holder of a shared prefix before another
	// endpoint is given it. A copy costs one prefill of the prefix, so copies
	// never cost more than a quarter of what sharing saved.
	copyLines = 4
	// catchUp is how many lines an endpoint that joins a group may be behind.
	catchUp = 8
)

type firstLeave struct {
	key  uint64
	gen  uint32
	slot uint16
	at   uint16 // tick / 64, to replace the oldest
}

// lineGroup counts the lines that begin behind one shared prefix.
type lineGroup struct {
	key   uint64
	epoch uint32  // halvings of the root seen
	used  uint32  // tick of the last use
	lines float32 // decayed
	slots []slotLines
}

type slotLines struct {
	gen uint32 // life of the slot the count is of
	n   float32
}

// lineRef is where a request's line begins.
type lineRef struct {
	root  *lineGroup
	group *lineGroup // nil: continues a line, or nobody else has left there yet
	key   uint64     // hash of the last block matched, 0 = nothing matched
}

func (t *lineTable) init() {
	t.roots = map[uint64]*lineGroup{}
	t.groups = map[uint64]*lineGroup{}
	t.firsts = make([]firstLeave, firstSets*firstWays)
}

// find returns the line of a prompt of model that leaves the known after the
// block key, 0 = at once.
func (t *lineTable) find(model, key uint64) lineRef {
	t.tick++
	r := t.roots[model]
	if r == nil {
		if len(t.roots) >= maxRoots {
			clear(t.roots)
		}
		r = &lineGroup{key: model}
		t.roots[model] = r
	}
	if key == 0 {
		return lineRef{root: r, group: r}
	}
	g := t.groups[key]
	if g != nil {
		g.used = t.tick
		g.settle(r)
	}
	return lineRef{root: r, group: g, key: key}
}

// known reports whether key is the last block of a shared prefix.
func (t *lineTable) known(key uint64) bool { return t.groups[key] != nil }

// begin notes that a line was placed on a life of a slot. A first leave is
// remembered only; from the second on the block is a shared prefix.
func (t *lineTable) begin(l *lineRef, slot endpoint.ID, gen uint32) {
	if l.group == nil {
		f, known := t.first(l.key)
		if !known {
			*f = firstLeave{key: l.key, gen: gen, slot: uint16(slot), at: uint16(t.tick >> 6)}
			return
		}
		l.group = &lineGroup{key: l.key, epoch: l.root.epoch, used: t.tick}
		l.group.add(endpoint.ID(f.slot), f.gen, 1)
		*f = firstLeave{}
		t.insert(l.group)
	}
	if l.group != l.root {
		l.group.add(slot, gen, 1)
	}
	l.root.add(slot, gen, 1)
	if l.root.lines >= decayLines {
		l.root.epoch++
		l.root.halve(1)
	}
}

// move corrects a begin that a retry took elsewhere.
func (t *lineTable) move(l *lineRef, from endpoint.ID, fromGen uint32, to endpoint.ID, toGen uint32) {
	if l.group == nil || l.root == nil {
		return
	}
	l.root.add(from, fromGen, -1)
	l.root.add(to, toGen, 1)
	if l.group != l.root {
		l.group.add(from, fromGen, -1)
		l.group.add(to, toGen, 1)
	}
}

// first returns the entry of key, or the one to replace by it.
func (t *lineTable) first(key uint64) (f *firstLeave, known bool) {
	at := int(mix(key)>>32%firstSets) * firstWays
	set := t.firsts[at : at+firstWays]
	oldest, now := &set[0], uint16(t.tick>>6)
	for i := range set {
		f := &set[i]
		if f.key == key {
			return f, true
		}
		if f.key == 0 || oldest.key != 0 && now-f.at > now-oldest.at {
			oldest = f
		}
	}
	return oldest, false
}

// insert adds a group; a full table gives up the oldest of eight.
func (t *lineTable) insert(g *lineGroup) {
	if len(t.groups) >= maxGroups {
		var oldest *lineGroup
		n := 0
		for _, o := range t.groups {
			if oldest == nil || t.tick-o.used > t.tick-oldest.used {
				oldest = o
			}
			if n++; n == 8 {
				break
			}
		}
		delete(t.groups, oldest.key)
	}
	t.groups[g.key] = g
}

// settle applies the root's halvings since the group's last use.
func (g *lineGroup) settle(root *lineGroup) {
	if d := root.epoch - g.epoch; d > 0 {
		g.halve(int(min(d, 30)))
		g.epoch = root.epoch
	}
}

func (g *lineGroup) halve(times int) {
	f := 1 / float32(int(1)<<times)
	g.lines *= f
	for i := range g.slots {
		g.slots[i].n *= f
	}
}

func (g *lineGroup) add(slot endpoint.ID, gen uint32, n float32) {
	if int(slot) >= len(g.slots) {
		g.slots = append(g.slots, make([]slotLines, int(slot)+1-len(g.slots))...)
	}
	s := &g.slots[slot]
	if s.gen != gen {
		if n < 0 {
			return
		}
		*s = slotLines{gen: gen}
	}
	s.n = max(0, s.n+n)
	g.lines = max(0, g.lines+n)
}

// counts sets dst[i] to the lines begun on each candidate. An endpoint the
// group has not met is taken to be at most catchUp lines behind the mean, so
// that one that joins a running fleet is not sent every line for a long time.
func (g *lineGroup) counts(d *decision, dst []float32) {
	var sum float32
	known := 0
	for i, at := range d.order {
		c := &d.cands[at]
		dst[i] = -1
		if int(c.id) < len(g.slots) && g.slots[c.id].gen == d.info(c).Generation {
			dst[i] = g.slots[c.id].n
			sum += dst[i]
			known++
		}
	}
	if known == len(dst) {
		return
	}
	behind := max(0, sum/max(1, float32(known))-catchUp)
	for i, at := range d.order {
		if dst[i] >= 0 {
			continue
		}
		dst[i] = behind
		if c := &d.cands[at]; behind > 0 {
			g.add(c.id, d.info(c).Generation, 0)
			g.slots[c.id].n = behind
		}
	}
}

// byShare returns on how many of n endpoints the share of its lines among all
// makes a shared prefix wanted.
func (l *lineRef) byShare(n int) int {
	if l.group == nil || l.group == l.root {
		return n
	}
	share := l.group.lines / max(1, l.root.lines)
	return int(share*float32(n) + 0.5)
}

// paid returns on how many of n endpoints the lines of a shared prefix have paid
// for a copy of it.
func (l *lineRef) paid(n int) int {
	if l.group == nil || l.group == l.root {
		return n
	}
	return max(1, min(1+int(l.group.lines-1)/copyLines, n))
}
