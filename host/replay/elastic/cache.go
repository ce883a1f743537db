package elastic

// cache is an engine's block cache: blocks in use are pinned, the others go
// least recently used first.
type cache struct {
	size   int // blocks that fit
	used   int // in the table, and private to requests
	blocks map[uint64]*block
	lru    block // sentinel; lru.next is the oldest unpinned one
}

type block struct {
	name       uint64
	pins       int
	ready      bool // computed
	prev, next *block
}

func newCache(size int) *cache {
	c := &cache{size: size, blocks: map[uint64]*block{}}
	c.lru.prev, c.lru.next = &c.lru, &c.lru
	return c
}

func (c *cache) unlink(b *block) { b.prev.next, b.next.prev = b.next, b.prev }

func (c *cache) pin(b *block) {
	if b.pins == 0 {
		c.unlink(b)
	}
	b.pins++
}

func (c *cache) unpin(b *block) {
	if b.pins--; b.pins > 0 {
		return
	}
	b.prev, b.next = c.lru.prev, &c.lru
	b.prev.next, c.lru.prev = b, b
}

// evict frees one block, false if all are in use.
func (c *cache) evict() bool {
	b := c.lru.next
	if b == &c.lru {
		return false
	}
	c.unlink(b)
	delete(c.blocks, b.name)
	c.used--
	return true
}

// admit pins the blocks of a prompt and room for private ones. It returns how
// many leading blocks are computed already, or false if there is no room: then only
// evictions have changed the cache.
func (c *cache) admit(names []uint64, private int) (ready int, ok bool) {
	need := private
	leading := true
	for _, x := range names {
		b := c.blocks[x]
		leading = leading && b != nil && b.ready
		switch {
		case b == nil:
			need++
		default:
			c.pin(b)
		}
		if leading {
			ready++
		}
	}
	for c.used+need > c.size {
		if c.evict() {
			continue
		}
		for _, x := range names {
			if b := c.blocks[x]; b != nil {
				c.unpin(b)
			}
		}
		return 0, false
	}
	for _, x := range names {
		if c.blocks[x] == nil {
			c.blocks[x] = &block{name: x, pins: 1}
		}
	}
	c.used += need
	return ready, true
}

// release frees what admit took. The end of a prompt is the next to be evicted.
func (c *cache) release(names []uint64, private int) {
	c.used -= private
	for i := len(names) - 1; i >= 0; i-- {
		c.unpin(c.blocks[names[i]])
	}
}

// computed marks the blocks [from, to) of a prompt.
func (c *cache) computed(names []uint64, from, to int) {
	for i := from; i < min(to, len(names)); i++ {
		c.blocks[names[i]].ready = true
	}
}
