package kvindex

import (
	"sync/atomic"
	"unsafe"
)

// run is one stretch of blocks with one holder set. Blocks are ids (positions
// in the arena); the live ones are [base, base+len). A run owns the positions
// [lo, lim), which contain the live ones. Runs cut from one stretch stay linked
// (prev, next) while their positions touch, so that a boundary between them can
// be moved instead of splitting again.
//
// Invariants, whenever the writer lock is free:
//   - lo ≤ base, base+len ≤ lim; len is 0 only in free runs, and so is set.
//   - heads maps the own hash of block base to this run, and no other block
//     inside a run is a head.
//   - r.next = q ⇔ q.prev = r, and then r.lim = q.lo.
//   - every own hash is in the index once.
//
// A reader loads ver, then span and set, then what they lead to, then ver
// again: the same even number means that all of it belonged together.
type run struct {
	span  atomic.Uint64 // base<<32 | len; readers
	set   atomic.Uint32 // holder set; readers
	ver   atomic.Uint32 // odd while the writer changes this run; readers
	stamp atomic.Uint32 // epoch of the last use; readers write it
	lo    uint32
	lim   uint32
	prev  uint32
	next  uint32
	res   uint32 // growth room: roomNone, roomQueued, …
}

func (r *run) bounds() (base, n uint32) { s := r.span.Load(); return uint32(s >> 32), uint32(s) }
func (r *run) start() uint32            { return uint32(r.span.Load() >> 32) }
func (r *run) setSpan(base, n uint32)   { r.span.Store(uint64(base)<<32 | uint64(n)) }
func (r *run) lock()                    { r.ver.Store(r.ver.Load() + 1) }
func (r *run) unlock()                  { r.ver.Store(r.ver.Load() + 1) }

// touch marks the run as used in this epoch. Most calls find it marked: the
// load is cheaper than a store that others would have to see.
func (r *run) touch(epoch uint32) {
	if r.stamp.Load() != epoch {
		r.stamp.Store(epoch)
	}
}

const (
	runBytes     = int64(unsafe.Sizeof(run{}))
	runChunkBits = 10
	runChunk     = 1 << runChunkBits
	runDir       = 1 << 14 // 16 Mi runs
)

// runs holds the run headers in chunks that never move and are never freed: a
// reader with an outdated id finds another run's header, with another version.
type runs struct {
	dir    [runDir]atomic.Pointer[[runChunk]run]
	n      uint32 // ids handed out so far, from 1; id 0 means none
	chunks int64
	free   []uint32
}

func (t *runs) init() { t.n = 1 }

func (t *runs) at(id uint32) *run { return &t.dir[id>>runChunkBits].Load()[id&(runChunk-1)] }

func (t *runs) bytes() int64 { return t.chunks*runChunk*runBytes + int64(cap(t.free))*4 }

// take hands out a free run.
func (t *runs) take() uint32 {
	if n := len(t.free); n > 0 {
		id := t.free[n-1]
		t.free = t.free[:n-1]
		return id
	}
	id := t.n
	if c := id >> runChunkBits; t.dir[c].Load() == nil {
		t.dir[c].Store(new([runChunk]run))
		t.chunks++
	}
	t.n++
	return id
}

func (t *runs) give(id uint32) { t.free = append(t.free, id) }

// create makes run id live: n blocks from lo on, positions [lo, lim), holder
// set `set`, in no list of touching runs. The caller inserts its head.
func (x *Index) create(id, lo, n, lim, set, stamp uint32) {
	R := x.runs.at(id)
	R.lock()
	R.lo, R.lim, R.prev, R.next, R.res = lo, lim, 0, 0, roomNone
	R.stamp.Store(stamp)
	R.set.Store(x.sets.retain(set))
	R.setSpan(lo, n)
	R.unlock()
	x.st.Runs++
}

// owner returns the run whose positions contain block id.
func (x *Index) owner(id uint32) uint32 {
	r := x.blocks.owner(id)
	for x.runs.at(r).lim <= id {
		r = x.runs.at(r).next
	}
	return r
}

// cursor is a place behind a block: block off-1 of run `run`. The zero cursor
// is nowhere.
type cursor struct{ run, off uint32 }

// after returns the cursor behind block id.
func (x *Index) after(id uint32) cursor {
	r := x.owner(id)
	return cursor{r, id - x.runs.at(r).start() + 1}
}

// common returns how many of the n blocks from id on are those of own, at least
// 1: the caller knows that the first one is. Chained hashes: equal at one
// position means equal at all before it, so the end is compared first and a
// difference is found by bisection.
func (x *Index) common(id, n uint32, own []uint64) uint32 {
	m := min(n, uint32(len(own)))
	s, o := x.blocks.seg(id)
	if s.own[o+m-1].Load() == own[m-1] {
		return m
	}
	lo, hi := uint32(1), m-1 // the first lo blocks are equal, block hi is not
	for lo < hi {
		mid := (lo + hi) / 2
		if s.own[o+mid].Load() == own[mid] {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
