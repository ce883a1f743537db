package simengine

// cache holds the KV blocks of one engine: which whole blocks can be matched,
// who uses them, and in which order they are evicted. It is vLLM's block pool
// with one change: a hash is held once, however many requests computed it.
//
// A block is pinned while a request uses it. Unpinned blocks wait in one queue
// in the order in which they were unpinned, a request's deepest block first; the head is
// evicted next. A request that uses a block uses its ancestors, hence an
// ancestor always waits behind its descendants: eviction is leaf first.
//
// Beside them it counts private blocks: memory of requests that holds no whole
// computed block yet. held + private never exceeds capacity.
//
// Not safe for concurrent use.
type cache struct {
	capacity int // blocks
	index    map[uint64]int32
	blocks   []block
	spare    []int32 // unused elements of blocks
	head     int32   // first to be evicted; none if empty
	tail     int32
	pinned   int // blocks with refs > 0
	private  int // blocks of requests without a hash yet
	removed  []uint64
}

type block struct {
	hash       uint64
	refs       int32
	prev, next int32 // queue of unpinned blocks
}

const none int32 = -1

func newCache(capacity int) *cache {
	return &cache{capacity: capacity, index: make(map[uint64]int32), head: none, tail: none}
}

// len returns the number of matchable blocks.
func (c *cache) len() int { return len(c.index) }

// match returns how many leading hashes are held.
func (c *cache) match(hashes []uint64) int {
	for i, h := range hashes {
		if _, ok := c.index[h]; !ok {
			return i
		}
	}
	return len(hashes)
}

// idle returns how many of the given held blocks no request uses.
func (c *cache) idle(hashes []uint64) (n int) {
	for _, h := range hashes {
		if c.blocks[c.index[h]].refs == 0 {
			n++
		}
	}
	return n
}

// pin takes one more reference of held blocks.
func (c *cache) pin(hashes []uint64) {
	for _, h := range hashes {
		c.pinOne(c.index[h])
	}
}

func (c *cache) pinOne(i int32) {
	b := &c.blocks[i]
	if b.refs == 0 {
		c.unlink(i)
		c.pinned++
	}
	b.refs++
}

// unpin gives back one reference of each of the hashes of one request, given in
// prompt order.
func (c *cache) unpin(hashes []uint64) {
	for k := len(hashes) - 1; k >= 0; k-- {
		i := c.index[hashes[k]]
		b := &c.blocks[i]
		if b.refs--; b.refs == 0 {
			c.pinned--
			c.push(i)
		}
	}
}

// alloc takes n private blocks and evicts as many blocks as that needs. The
// caller has seen to it that pinned + private + n <= capacity.
func (c *cache) alloc(n int) {
	c.private += n
	for len(c.index)+c.private > c.capacity {
		i := c.head
		if i == none {
			panic("BUG: simengine: block pool overcommitted")
		}
		c.unlink(i)
		h := c.blocks[i].hash
		delete(c.index, h)
		c.spare = append(c.spare, i)
		c.removed = append(c.removed, h)
	}
}

// release gives back n private blocks.
func (c *cache) release(n int) { c.private -= n }

// store turns a private block into a held one, pinned once by its request, and
// reports whether it is new: a hash that is held already keeps its block and
// the private one is freed.
func (c *cache) store(hash uint64) bool {
	c.private--
	if i, ok := c.index[hash]; ok {
		c.pinOne(i)
		return false
	}
	var i int32
	if n := len(c.spare); n > 0 {
		i, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		i = int32(len(c.blocks))
		c.blocks = append(c.blocks, block{})
	}
	c.blocks[i] = block{hash: hash, refs: 1, prev: none, next: none}
	c.index[hash] = i
	c.pinned++
	return true
}

// takeRemoved returns the hashes evicted since the last call. They are valid
// until the next alloc.
func (c *cache) takeRemoved() []uint64 {
	r := c.removed
	c.removed = c.removed[:0]
	return r
}

// clear removes all blocks. If any block is in use it does nothing and returns false.
func (c *cache) clear() bool {
	if c.pinned > 0 || c.private > 0 {
		return false
	}
	clear(c.index)
	c.blocks, c.spare, c.head, c.tail = c.blocks[:0], c.spare[:0], none, none
	return true
}

// push appends an unpinned block to the queue.
func (c *cache) push(i int32) {
	b := &c.blocks[i]
	b.prev, b.next = c.tail, none
	if c.tail != none {
		c.blocks[c.tail].next = i
	} else {
		c.head = i
	}
	c.tail = i
}

func (c *cache) unlink(i int32) {
	b := &c.blocks[i]
	if b.prev != none {
		c.blocks[b.prev].next = b.next
	} else {
		c.head = b.next
	}
	if b.next != none {
		c.blocks[b.next].prev = b.prev
	} else {
		c.tail = b.prev
	}
	b.prev, b.next = none, none
}
