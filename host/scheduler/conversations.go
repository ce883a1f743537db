package scheduler

import (
	"sync"
	"sync/atomic"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// A conversation is a sequence of requests each of which continues the prompt of
// the one before: a chat, an agent's loop. It begins where a prompt leaves what
// is known, and where it begins is where its cached blocks will pile up; so that
// choice is one for the long run, and a cost that knows this request only cannot
// make it. The table tells beginnings from continuations and counts where
// conversations began (RATIONALE.md: "Why does a shared system prompt not pull
// all traffic to one endpoint?").
//
// A prompt's longest known match ends at some block. If other requests have
// left the known at that same block before, the prompt branches off a shared
// prefix and begins a conversation; if none has, it continues one.

// conversations counts where the conversations of one model began. begin and move lock
// mu; other methods, also those of branchPoint and prefixGroup, need it held.
type conversations struct {
	mu     sync.Mutex                          // guards the fields below and every prefixGroup; nests in a lane
	limits *atomic.Pointer[conversationLimits] // shared by all models
	root   prefixGroup                         // all conversations of the model
	groups map[uint64]*prefixGroup             // by hash of a shared prefix's last block
	firsts []firstLeave                        // [sets × firstWays] blocks left once; grows to limits.sets
	noted  int                                 // entries made since firsts grew
	tick   uint32
}

// conversationLimits divides what all models may take among them.
type conversationLimits struct{ groups, sets int }

const (
	// maxGroups shared prefixes are known of all models; beyond its part a model
	// gives up the least recently used of a sample. Each takes 8 bytes per endpoint.
	maxGroups = 4096
	minGroups = 64 // of one model, however many there are
	// 64 Ki blocks left once, 1 MiB: the continuations of the last minutes at
	// 1,000 requests/s.
	maxSets   = 1 << 14
	minSets   = 1 << 9 // of one model, however many there are: 32 KiB
	firstWays = 4
	// decayCount halves all counts: old conversations are over. A thousand keeps
	// the share of a prefix to a few per cent.
	decayCount = 1024
	// catchUp is by how many conversations an endpoint that joins a group may be behind.
	catchUp = 8
)

// limitsFor returns what each of n models may take.
func limitsFor(n int) conversationLimits {
	l := conversationLimits{groups: max(minGroups, maxGroups/n), sets: maxSets}
	for l.sets > minSets && l.sets*n > maxSets {
		l.sets /= 2
	}
	return l
}

type firstLeave struct {
	key   uint64
	epoch uint32
	slot  uint16
	at    uint16 // tick / 64, to replace the oldest
}

// prefixGroup counts the conversations that begin behind one shared prefix.
type prefixGroup struct {
	key      uint64
	halvings uint32  // of the root, seen
	used     uint32  // tick of the last use
	count    float32 // decayed
	slots    []slotCount
}

type slotCount struct {
	epoch uint32 // of the slot that the count is of
	n     float32
}

// branchPoint is where a request's conversation begins. The zero branchPoint is
// nowhere.
type branchPoint struct {
	root  *prefixGroup
	group *prefixGroup // nil: continues a conversation, or no other request has left there
	key   uint64       // hash of the last block matched, 0 = nothing matched
}

// init prepares an empty table; limits may change meanwhile.
func (t *conversations) init(limits *atomic.Pointer[conversationLimits]) {
	t.limits, t.groups = limits, map[uint64]*prefixGroup{}
}

// findLocked returns the branch point of a prompt that leaves the known after the
// block key, 0 = at once.
func (t *conversations) findLocked(key uint64) branchPoint {
	t.tick++
	if key == 0 {
		return branchPoint{root: &t.root, group: &t.root}
	}
	g := t.groups[key]
	if g != nil {
		g.used = t.tick
		g.catchUp(&t.root)
	}
	return branchPoint{root: &t.root, group: g, key: key}
}

// knownLocked reports whether key is the last block of a shared prefix.
func (t *conversations) knownLocked(key uint64) bool { return t.groups[key] != nil }

// begin records that a conversation was placed on an endpoint. A first leave
// is kept apart; from the second on the block is a shared prefix. It locks t.
func (t *conversations) begin(l *branchPoint, slot endpoint.ID, epoch uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.group == nil {
		f, known := t.firstLocked(l.key)
		if !known {
			*f = firstLeave{key: l.key, epoch: epoch, slot: uint16(slot), at: uint16(t.tick >> 6)}
			t.noted++
			return
		}
		l.group = &prefixGroup{key: l.key, halvings: l.root.halvings, used: t.tick}
		l.group.add(endpoint.ID(f.slot), f.epoch, 1)
		*f = firstLeave{}
		t.insertLocked(l.group)
	}
	if l.group != l.root {
		l.group.add(slot, epoch, 1)
	}
	l.root.add(slot, epoch, 1)
	if l.root.count >= decayCount {
		l.root.halvings++
		l.root.halve(1)
	}
}

// move corrects a begin that a retry took elsewhere. It locks t.
func (t *conversations) move(l *branchPoint, from endpoint.ID, fromEpoch uint32, to endpoint.ID, toEpoch uint32) {
	if l.group == nil || l.root == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l.root.add(from, fromEpoch, -1)
	l.root.add(to, toEpoch, 1)
	if l.group != l.root {
		l.group.add(from, fromEpoch, -1)
		l.group.add(to, toEpoch, 1)
	}
}

// firstLocked returns the entry of key, or the one to replace by it.
func (t *conversations) firstLocked(key uint64) (f *firstLeave, known bool) {
	t.growLocked()
	set := t.setLocked(key)
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

func (t *conversations) setLocked(key uint64) []firstLeave {
	at := int(mix(key)>>32%uint64(len(t.firsts)/firstWays)) * firstWays
	return t.firsts[at : at+firstWays]
}

// growLocked doubles the table of first leaves when a quarter of it is in use, up
// to the model's part of the whole: fuller, sets of four overflow.
func (t *conversations) growLocked() {
	sets := len(t.firsts) / firstWays
	if sets > 0 && (sets >= t.limits.Load().sets || t.noted < sets) {
		return
	}
	was := t.firsts
	t.firsts, t.noted = make([]firstLeave, max(minSets, 2*sets)*firstWays), 0
	for i := range was {
		if f := &was[i]; f.key != 0 {
			set := t.setLocked(f.key)
			for k := range set {
				if set[k].key == 0 {
					set[k] = *f
					t.noted++
					break
				}
			}
		}
	}
}

// insertLocked adds a group; a full table gives up the oldest of eight.
func (t *conversations) insertLocked(g *prefixGroup) {
	for len(t.groups) >= t.limits.Load().groups {
		var oldest *prefixGroup
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

// catchUp applies the root's halvings since the group's last use.
func (g *prefixGroup) catchUp(root *prefixGroup) {
	if d := root.halvings - g.halvings; d > 0 {
		g.halve(int(min(d, 30)))
		g.halvings = root.halvings
	}
}

func (g *prefixGroup) halve(times int) {
	f := 1 / float32(int(1)<<times)
	g.count *= f
	for i := range g.slots {
		g.slots[i].n *= f
	}
}

func (g *prefixGroup) add(slot endpoint.ID, epoch uint32, n float32) {
	if int(slot) >= len(g.slots) {
		g.slots = append(g.slots, make([]slotCount, int(slot)+1-len(g.slots))...)
	}
	s := &g.slots[slot]
	if s.epoch != epoch {
		if n < 0 {
			return
		}
		*s = slotCount{epoch: epoch}
	}
	s.n = max(0, s.n+n)
	g.count = max(0, g.count+n)
}

// counts sets dst[i] to the conversations begun on candidate i. An endpoint that is new
// to the group is counted as at most catchUp behind the mean, so that one that joins a
// running fleet does not get every conversation for a long time.
func (g *prefixGroup) counts(d *decision, dst []float32) {
	var sum float32
	known := 0
	for i, at := range d.order {
		c := &d.cands[at]
		dst[i] = -1
		if int(c.id) < len(g.slots) && g.slots[c.id].epoch == d.info(c).Epoch {
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
			g.add(c.id, d.info(c).Epoch, 0)
			g.slots[c.id].n = behind
		}
	}
}

// byShare returns how many of n endpoints a shared prefix deserves by its share of all
// conversations.
func (l *branchPoint) byShare(n int) int {
	if l.group == nil || l.group == l.root {
		return n
	}
	share := l.group.count / max(1, l.root.count)
	return int(share*float32(n) + 0.5)
}

// paid returns for how many of n endpoints the conversations of a shared prefix have
// paid a copy, one for each after conversations.
func (l *branchPoint) paid(n, after int) int {
	if l.group == nil || l.group == l.root {
		return n
	}
	return max(1, min(1+int(l.group.count-1)/after, n))
}
