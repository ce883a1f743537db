package kvindex

import "sync"

// maxCapacity bounds a model: 64 Mi blocks are far more than any engine has.
const maxCapacity = 1 << 26

// lru is the model of one cache: blocks in the order of their last use, where
// the blocks of one request count from the end of its chain to its start.
//
// The blocks that a request was the last to use are consecutive: requests after
// it took a prefix of them, evictions a suffix. So the whole order is a list of
// stretches, one per request at most, and using 8,192 blocks costs no more than
// copying their hashes and a few steps of the list. What is held is closed
// under prefixes: a child is never used after its parent.
//
// Hashes are in a log. A stretch is written at its end; dead places are squeezed
// out when the end is reached, which happens at most once per half a capacity of
// blocks.
type lru struct {
	all      *Assumed
	mu       sync.Mutex // guards all below
	capacity int        // blocks
	count    int        // blocks held
	log      []uint64   // own hashes
	end      uint32     // of the used part of the log
	segs     []stretch  // [0] is both lists' head; free ones are linked by newer
	free     uint32
	table    []uint32 // own hash of a stretch's first block → stretch; 0: none
	n        int      // stretches
}

// stretch is a piece of a chain, log[pos : pos+len].
type stretch struct {
	head         uint64 // log[pos]
	pos, len     uint32
	newer, older uint32 // by use: segs[0].newer is the oldest
	next, prev   uint32 // by pos: segs[0].next is the first in the log
}

const (
	stretchBytes = 32
	minStretches = 16
	minLog       = 1024
)

// match is the number of leading blocks that are held. hint is where another
// cache's first stretch and hashes parted: prompts part at the end of what they
// share, whichever endpoint served them. It is set to where this one's did.
func (c *lru) match(hashes []uint64, hint *uint32) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	pos := 0
	for pos < len(hashes) {
		i, _ := c.find(hashes[pos])
		if i == 0 {
			break
		}
		if pos == 0 {
			if !c.parts(i, hashes, *hint) {
				*hint = c.common(i, hashes)
			}
			pos = int(*hint)
			continue
		}
		pos += int(c.common(i, hashes[pos:]))
	}
	return uint32(pos)
}

// parts reports whether stretch i and hashes have exactly n leading blocks in
// common and both go on, n at least 1.
func (c *lru) parts(i uint32, hashes []uint64, n uint32) bool {
	s := &c.segs[i]
	return n > 0 && n < s.len && int(n) < len(hashes) &&
		c.log[s.pos+n] != hashes[n] && c.log[s.pos+n-1] == hashes[n-1]
}

// touch makes hashes the most recently used blocks.
func (c *lru) touch(hashes []uint64) {
	hashes = hashes[:min(len(hashes), c.capacity)]
	if len(hashes) == 0 || c.again(hashes) {
		return
	}
	for pos := 0; pos < len(hashes); {
		i, _ := c.find(hashes[pos])
		if i == 0 {
			break
		}
		m := c.common(i, hashes[pos:])
		c.behead(i, m)
		pos += int(m)
	}
	limit := c.reach(min(c.count+len(hashes), c.capacity))
	hashes = hashes[:min(len(hashes), limit)]
	c.evict(limit - len(hashes))
	for c.free == 0 && !c.moreStretches() && c.n > 0 {
		c.evict(c.count - int(c.segs[c.segs[0].newer].len)) // the oldest
	}
	if len(hashes) == 0 || c.free == 0 {
		return
	}
	if int(c.end)+len(hashes) > len(c.log) {
		c.squeeze(c.log)
	}
	c.push(hashes)
}

// again is touch of exactly what one stretch holds.
func (c *lru) again(hashes []uint64) bool {
	i, _ := c.find(hashes[0])
	if i == 0 || int(c.segs[i].len) != len(hashes) || int(c.common(i, hashes)) != len(hashes) {
		return false
	}
	c.unlinkUse(i)
	c.linkNewest(i)
	return true
}

// common is the number of leading blocks of hashes in stretch i, at least 1.
// The hashes are chained: equal at one place means equal before it.
func (c *lru) common(i uint32, hashes []uint64) uint32 {
	s := &c.segs[i]
	m := min(s.len, uint32(len(hashes)))
	log := c.log[s.pos:][:m]
	if log[m-1] == hashes[m-1] {
		return m
	}
	lo, hi := uint32(1), m-1 // the first lo are equal, hi is not
	for lo < hi {
		mid := (lo + hi) / 2
		if log[mid] == hashes[mid] {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// behead takes the first m blocks off stretch i.
func (c *lru) behead(i, m uint32) {
	s := &c.segs[i]
	c.remove(s.head)
	c.count -= int(m)
	s.pos += m
	if s.len -= m; s.len == 0 {
		c.drop(i)
		return
	}
	s.head = c.log[s.pos]
	c.insert(i)
}

// evict drops the least recently used blocks until at most limit are held.
func (c *lru) evict(limit int) {
	for c.count > limit {
		i := c.segs[0].newer
		s := &c.segs[i]
		d := min(uint32(c.count-limit), s.len)
		c.count -= int(d)
		if s.len -= d; s.len == 0 {
			c.remove(s.head)
			c.drop(i)
		}
	}
}

// push adds hashes as the newest stretch. There is a free one, and room in the
// log.
func (c *lru) push(hashes []uint64) {
	i := c.free
	s := &c.segs[i]
	c.free = s.newer
	*s = stretch{head: hashes[0], pos: c.end, len: uint32(len(hashes)), prev: c.segs[0].prev}
	c.segs[s.prev].next = i
	c.segs[0].prev = i
	c.linkNewest(i)
	c.end += uint32(copy(c.log[c.end:], hashes))
	c.count += len(hashes)
	c.n++
	c.insert(i)
}

// drop frees stretch i, which is empty and not in the table.
func (c *lru) drop(i uint32) {
	s := &c.segs[i]
	c.segs[s.prev].next = s.next
	c.segs[s.next].prev = s.prev
	c.unlinkUse(i)
	*s = stretch{newer: c.free}
	c.free = i
	if c.n--; c.n == 0 {
		c.end = 0
	}
}

func (c *lru) unlinkUse(i uint32) {
	s := &c.segs[i]
	c.segs[s.older].newer = s.newer
	c.segs[s.newer].older = s.older
}

func (c *lru) linkNewest(i uint32) {
	s := &c.segs[i]
	s.older, s.newer = c.segs[0].older, 0
	c.segs[s.older].newer = i
	c.segs[0].older = i
}

// --- memory ------------------------------------------------------------------

// logFor is the length of a log for so many blocks: half of them more, so that
// squeezing is rare.
func logFor(blocks int) int { return blocks + blocks/2 }

// reach makes the log long enough for so many blocks, as far as the budget
// allows, and returns for how many it is.
func (c *lru) reach(blocks int) int {
	if need := logFor(blocks); need > len(c.log) {
		for _, n := range [...]int{min(max(2*len(c.log), need, minLog), logFor(c.capacity)), need} {
			if c.all.take(8 * int64(n-len(c.log))) {
				c.squeeze(make([]uint64, n))
				break
			}
		}
	}
	for blocks > 0 && logFor(blocks) > len(c.log) {
		blocks = min(blocks-1, len(c.log)*2/3)
	}
	return blocks
}

// squeeze moves the live stretches to the start of log, in the order in which
// they are. log is the log or another one, long enough.
func (c *lru) squeeze(log []uint64) {
	at := uint32(0)
	if len(c.segs) > 0 {
		for i := c.segs[0].next; i != 0; i = c.segs[i].next {
			s := &c.segs[i]
			copy(log[at:], c.log[s.pos:s.pos+s.len])
			s.pos = at
			at += s.len
		}
	}
	c.log, c.end = log, at
}

// moreStretches doubles the stretches and the table, if the budget allows.
func (c *lru) moreStretches() bool {
	n := max(minStretches, 2*len(c.segs))
	if !c.all.take(int64(n-len(c.segs)) * (stretchBytes + 8)) {
		return false
	}
	segs := make([]stretch, n)
	from := max(copy(segs, c.segs), 1)
	for i := from; i < n-1; i++ {
		segs[i].newer = uint32(i + 1)
	}
	segs[n-1].newer = c.free
	c.free = uint32(from)
	c.segs = segs
	c.table = make([]uint32, 2*n)
	for i := segs[0].next; i != 0; i = segs[i].next {
		c.insert(i)
	}
	return true
}

func (c *lru) setCapacity(blocks int) {
	c.capacity = blocks
	c.evict(blocks)
	if blocks == 0 {
		c.clear()
		return
	}
	if n := logFor(blocks); len(c.log) > 2*n { // much too long: free the rest
		c.all.bytes.Add(-8 * int64(len(c.log)-n))
		c.squeeze(make([]uint64, n))
	}
}

// clear frees all memory.
func (c *lru) clear() {
	c.all.bytes.Add(-8*int64(len(c.log)) - int64(len(c.segs))*(stretchBytes+8))
	c.count, c.n, c.end, c.free = 0, 0, 0, 0
	c.log, c.segs, c.table = nil, nil, nil
}

// --- table: linear probing, at most half full ----------------------------------

// home is where the search for a hash begins. Own hashes are random already.
func (c *lru) home(hash uint64) int { return int(hash>>32) & (len(c.table) - 1) }

// find returns the stretch that begins with hash and its slot; 0 if none does.
func (c *lru) find(hash uint64) (i uint32, slot int) {
	if len(c.table) == 0 {
		return 0, 0
	}
	for slot = c.home(hash); ; slot = (slot + 1) & (len(c.table) - 1) {
		i = c.table[slot]
		if i == 0 || c.segs[i].head == hash {
			return i, slot
		}
	}
}

// insert adds stretch i under its first hash.
func (c *lru) insert(i uint32) {
	_, slot := c.find(c.segs[i].head)
	c.table[slot] = i
}

// remove takes away the stretch that begins with hash, and shifts those behind
// it back.
func (c *lru) remove(hash uint64) {
	i, slot := c.find(hash)
	if i == 0 {
		panic("BUG: kvindex: stretch not found")
	}
	mask := len(c.table) - 1
	for j := (slot + 1) & mask; c.table[j] != 0; j = (j + 1) & mask {
		if home := c.home(c.segs[c.table[j]].head); (j-home)&mask >= (j-slot)&mask {
			c.table[slot] = c.table[j]
			slot = j
		}
	}
	c.table[slot] = 0
}
