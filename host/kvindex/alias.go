package kvindex

// aliases maps (holder, engine hash) to blocks and (holder, block) to the
// engine hash, for pairs that the canonical name of the block does not name.
// A pair costs 24 bytes in the slab and 5 to 11 for its two chains of buckets.
// Free entries are kept until the last pair is dropped. Writers only.
//
// Tables are split into subs that double on their own, so that growing stalls
// the writer for the rehash of one sub only.
type aliases struct {
	seed   uint64
	held   []uint32 // [holders] entries each has
	slab   []*[aliasChunk]alias
	free   uint32 // list of free entries, through nextName
	nfree  int
	total  int
	names  [aliasSubs]aliasSub // by (holder, engine hash)
	blocks [aliasSubs]aliasSub // by (holder, block)
	bytes  int64
	hungry bool // an entry was refused since the flag was cleared
}

// alias is that holder calls block engine. Entries are numbered from 1.
type alias struct {
	engine    uint64
	block     uint32
	holder    uint32
	nextName  uint32 // later entries of the chain by name; younger entries come first
	nextBlock uint32
}

type aliasSub struct {
	heads []uint32 // a power of two
	n     int
}

const (
	aliasBytes     = 24
	aliasChunkBits = 10
	aliasChunk     = 1 << aliasChunkBits
	aliasSubBits   = 8
	aliasSubs      = 1 << aliasSubBits

	// maxSameName bounds the blocks of one holder with one name. Engines that
	// leave the salt out of the hash need one per namespace that shares a
	// prompt. Without a bound an endpoint could make one chain of buckets, and so
	// each of its events, arbitrarily slow.
	maxSameName = 64
)

func (t *aliases) init(holders int, seed uint64) {
	t.held = make([]uint32, holders)
	t.seed = seed
}

// has reports whether h has any alias.
func (t *aliases) has(h int) bool { return t.total > 0 && t.held[h] > 0 }

func (t *aliases) at(i uint32) *alias {
	i--
	return &t.slab[i>>aliasChunkBits][i&(aliasChunk-1)]
}

func (t *aliases) nameHash(h int, engine uint64) uint64 {
	return mix(engine+uint64(h)*0xD6E8FEB86659FD93, t.seed)
}

func (t *aliases) blockHash(h int, block uint32) uint64 {
	return mix(uint64(h)<<32|uint64(block), t.seed)
}

// head returns the bucket of a hash.
func (s *aliasSub) head(hash uint64) *uint32 { return &s.heads[hash&uint64(len(s.heads)-1)] }

func sub(subs *[aliasSubs]aliasSub, hash uint64) *aliasSub { return &subs[hash>>(64-aliasSubBits)] }

// byName returns the block that holder h calls engine, the latest if several.
func (t *aliases) byName(h int, engine uint64) (block uint32, ok bool) {
	hash := t.nameHash(h, engine)
	s := sub(&t.names, hash)
	if s.n == 0 {
		return 0, false
	}
	for i := *s.head(hash); i != 0; {
		a := t.at(i)
		if a.engine == engine && a.holder == uint32(h) {
			return a.block, true
		}
		i = a.nextName
	}
	return 0, false
}

// byBlock returns the entry of the pair (h, block).
func (t *aliases) byBlock(h int, block uint32) (entry uint32, ok bool) {
	hash := t.blockHash(h, block)
	s := sub(&t.blocks, hash)
	if s.n == 0 {
		return 0, false
	}
	for i := *s.head(hash); i != 0; {
		a := t.at(i)
		if a.block == block && a.holder == uint32(h) {
			return i, true
		}
		i = a.nextBlock
	}
	return 0, false
}

// put makes engine what h calls block, instead of what it called it. It returns
// false, with nothing changed, if there is no free entry and left bytes are too
// few for more, or if h calls too many blocks so.
func (t *aliases) put(h int, engine uint64, block uint32, left int64) bool {
	i, again := t.byBlock(h, block)
	if again && t.at(i).engine == engine {
		t.unlinkName(i)
		t.linkName(i) // in front
		return true
	}
	if t.sameName(h, engine) >= maxSameName {
		return false
	}
	if again {
		t.unlinkName(i)
		t.at(i).engine = engine
		t.linkName(i)
		return true
	}
	if t.nfree == 0 && !t.grow(left) {
		t.hungry = true
		return false
	}
	i = t.free
	a := t.at(i)
	t.free = a.nextName
	t.nfree--
	*a = alias{engine: engine, block: block, holder: uint32(h)}
	t.linkName(i)
	t.linkBlock(i)
	t.total++
	t.held[h]++
	return true
}

// drop removes the alias of the pair (h, block), if there is one.
func (t *aliases) drop(h int, block uint32) {
	i, ok := t.byBlock(h, block)
	if !ok {
		return
	}
	t.unlinkName(i)
	t.unlinkBlock(i)
	t.held[h]--
	if t.total--; t.total == 0 {
		t.reset()
		return
	}
	t.at(i).nextName = t.free
	t.free = i
	t.nfree++
}

// move renumbers block from to block to, for holder h.
func (t *aliases) move(h int, from, to uint32) {
	i, ok := t.byBlock(h, from)
	if !ok {
		return
	}
	t.unlinkBlock(i)
	t.at(i).block = to
	t.linkBlock(i)
}

// reset frees all memory, after the last entry is dropped.
func (t *aliases) reset() {
	*t = aliases{held: t.held, seed: t.seed}
}

// grow adds a chunk of free entries if left bytes allow that.
func (t *aliases) grow(left int64) bool {
	if left < aliasChunk*(aliasBytes+16) {
		return false
	}
	c := new([aliasChunk]alias)
	t.slab = append(t.slab, c)
	t.bytes += aliasChunk*aliasBytes + 8
	last := uint32(len(t.slab)) << aliasChunkBits
	for i := range c { // in order of memory
		c[i].nextName = last - aliasChunk + uint32(i) + 2
	}
	c[aliasChunk-1].nextName = t.free
	t.free = last - aliasChunk + 1
	t.nfree += aliasChunk
	return true
}

// sameName counts the blocks that h calls engine, up to the bound.
func (t *aliases) sameName(h int, engine uint64) (n int) {
	hash := t.nameHash(h, engine)
	s := sub(&t.names, hash)
	if s.n == 0 {
		return 0
	}
	for i := *s.head(hash); i != 0 && n < maxSameName; {
		a := t.at(i)
		if a.engine == engine && a.holder == uint32(h) {
			n++
		}
		i = a.nextName
	}
	return n
}

func (t *aliases) linkName(i uint32) {
	a := t.at(i)
	hash := t.nameHash(int(a.holder), a.engine)
	s := sub(&t.names, hash)
	t.widen(s, true)
	p := s.head(hash)
	a.nextName, *p = *p, i
	s.n++
}

func (t *aliases) linkBlock(i uint32) {
	a := t.at(i)
	hash := t.blockHash(int(a.holder), a.block)
	s := sub(&t.blocks, hash)
	t.widen(s, false)
	p := s.head(hash)
	a.nextBlock, *p = *p, i
	s.n++
}

func (t *aliases) unlinkName(i uint32) {
	a := t.at(i)
	hash := t.nameHash(int(a.holder), a.engine)
	s := sub(&t.names, hash)
	p := s.head(hash)
	for *p != i {
		p = &t.at(*p).nextName
	}
	*p = a.nextName
	s.n--
}

func (t *aliases) unlinkBlock(i uint32) {
	a := t.at(i)
	hash := t.blockHash(int(a.holder), a.block)
	s := sub(&t.blocks, hash)
	p := s.head(hash)
	for *p != i {
		p = &t.at(*p).nextBlock
	}
	*p = a.nextBlock
	s.n--
}

// widen doubles a sub that is full, 1.5 entries a bucket. Chains keep their
// order, so that the youngest entry of a name stays first.
func (t *aliases) widen(s *aliasSub, byName bool) {
	if s.n*2 < len(s.heads)*3 {
		return
	}
	old := s.heads
	s.heads = make([]uint32, max(8, 2*len(old)))
	t.bytes += int64(len(s.heads)-len(old)) * 4
	tails := make([]*uint32, len(s.heads)) // end of each chain
	for j := range s.heads {
		tails[j] = &s.heads[j]
	}
	mask := uint64(len(s.heads) - 1)
	for _, i := range old {
		for i != 0 {
			a, entry := t.at(i), i
			next, hash := &a.nextBlock, t.blockHash(int(a.holder), a.block)
			if byName {
				next, hash = &a.nextName, t.nameHash(int(a.holder), a.engine)
			}
			i, *next = *next, 0
			*tails[hash&mask] = entry
			tails[hash&mask] = next
		}
	}
}
