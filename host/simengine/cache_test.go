package simengine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveCache is the same cache written the slow and obvious way.
type naiveCache struct {
	capacity, private int
	now               int
	held              []naiveBlock
}

type naiveBlock struct {
	hash, parent uint64 // parent 0: none
	refs         int
	freed        int // when it was let go
}

func (c *naiveCache) find(h uint64) int {
	return slices.IndexFunc(c.held, func(b naiveBlock) bool { return b.hash == h })
}

// evict gives up the block that was let go longest ago.
func (c *naiveCache) evict(t *testing.T) uint64 {
	best := -1
	for i, b := range c.held {
		if b.refs == 0 && (best < 0 || b.freed < c.held[best].freed) {
			best = i
		}
	}
	h := c.held[best].hash
	for _, b := range c.held {
		if b.parent == h {
			t.Fatalf("block %d evicted before its child %d", h, b.hash)
		}
	}
	c.held = slices.Delete(c.held, best, best+1)
	return h
}

func (c *naiveCache) unpin(hashes []uint64) {
	for _, h := range slices.Backward(hashes) {
		i := c.find(h)
		c.now++
		if c.held[i].refs--; c.held[i].refs == 0 {
			c.held[i].freed = c.now
		}
	}
}

// user is a request as the cache sees it.
type user struct {
	hashes []uint64
	n      int // held
	alloc  int // blocks of memory
}

// TestCache_reference runs random requests against both caches.
func TestCache_reference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const capacity = 24
	c, ref := newCache(capacity), &naiveCache{capacity: capacity}
	var users []*user
	var evicted, shared int
	for range 60_000 {
		switch op := rng.IntN(4); {
		case op == 0 && len(users) < 4: // a request comes
			u := &user{hashes: path(rng)}
			u.n = c.match(u.hashes)
			u.alloc = u.n
			if got, want := u.n, naiveMatch(ref, u.hashes); got != want {
				t.Fatalf("match %d, want %d", got, want)
			}
			if c.pinned+c.private+c.idle(u.hashes[:u.n]) > capacity/2 {
				continue
			}
			c.pin(u.hashes[:u.n])
			for _, h := range u.hashes[:u.n] {
				ref.held[ref.find(h)].refs++
			}
			users = append(users, u)
		case op == 1 && len(users) > 0: // computes one block
			u := users[rng.IntN(len(users))]
			if u.alloc == len(u.hashes) || c.pinned+c.private == capacity {
				continue
			}
			c.alloc(1)
			ref.private++
			var want []uint64
			for len(ref.held)+ref.private > capacity {
				want = append(want, ref.evict(t))
			}
			got := c.takeRemoved()
			if !slices.Equal(got, want) {
				t.Fatalf("evicted %d, want %d", got, want)
			}
			evicted += len(got)
			u.alloc++
		case op == 2 && len(users) > 0: // stores what it computed
			u := users[rng.IntN(len(users))]
			if u.alloc == u.n {
				continue
			}
			h := u.hashes[u.n]
			i := ref.find(h)
			if got, want := c.store(h), i < 0; got != want {
				t.Fatalf("store: new %v, want %v", got, want)
			}
			ref.private--
			if i >= 0 {
				ref.held[i].refs++
				shared++
			} else {
				b := naiveBlock{hash: h, refs: 1}
				if u.n > 0 {
					b.parent = u.hashes[u.n-1]
				}
				ref.held = append(ref.held, b)
			}
			u.n++
		case op == 3 && len(users) > 0: // ends
			i := rng.IntN(len(users))
			u := users[i]
			c.unpin(u.hashes[:u.n])
			c.release(u.alloc - u.n)
			ref.unpin(u.hashes[:u.n])
			ref.private -= u.alloc - u.n
			users = slices.Delete(users, i, i+1)
		}
		compare(t, c, ref)
	}
	if evicted < 100 || shared < 10 {
		t.Fatalf("only %d evictions and %d shared stores", evicted, shared)
	}
}

// path returns the hashes of a random path in a tree: node n has the children
// 3n+1..3n+3.
func path(rng *rand.Rand) (p []uint64) {
	n := uint64(0)
	for range 1 + rng.IntN(6) {
		n = 3*n + 1 + rng.Uint64N(3)
		p = append(p, n)
	}
	return p
}

func naiveMatch(c *naiveCache, hashes []uint64) int {
	for i, h := range hashes {
		if c.find(h) < 0 {
			return i
		}
	}
	return len(hashes)
}

func compare(t *testing.T, c *cache, ref *naiveCache) {
	t.Helper()
	pinned := 0
	for _, b := range ref.held {
		if b.refs > 0 {
			pinned++
		}
		i, ok := c.index[b.hash]
		if !ok || int(c.blocks[i].refs) != b.refs {
			t.Fatalf("block %d: held %v", b.hash, ok)
		}
	}
	if c.len() != len(ref.held) || c.pinned != pinned || c.private != ref.private {
		t.Fatalf("held %d pinned %d private %d, want %d %d %d", c.len(), c.pinned, c.private, len(ref.held), pinned,
			ref.private)
	}
	if c.len()+c.private > c.capacity {
		t.Fatalf("%d blocks of %d", c.len()+c.private, c.capacity)
	}
}

func TestCache_clear(t *testing.T) {
	c := newCache(4)
	c.alloc(2)
	c.store(1)
	c.store(2)
	if c.clear() {
		t.Fatal("cleared while in use")
	}
	c.unpin([]uint64{1, 2})
	if !c.clear() || c.len() != 0 || c.match([]uint64{1}) != 0 {
		t.Fatal("not cleared")
	}
	c.alloc(4)
	if len(c.takeRemoved()) != 0 {
		t.Fatal("evicted from an empty cache")
	}
}
