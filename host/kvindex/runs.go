package kvindex

import (
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
)

// ErrOrphan is returned by Store when the parent block is not in the index.
var ErrOrphan = errors.New("kvindex: unknown parent")

// run is one stretch of blocks. Blocks are ids (positions in the arena); the live blocks are
// [base, base+len). A run owns the arena positions [lo, lim), which contain the live ones; runs cut
// from one stretch stay linked (prev, next) while their positions touch, so that a boundary between
// them can be moved instead of splitting again.
type run struct {
	span  atomic.Uint64 // base<<32 | len; readers
	set   atomic.Uint32 // holder set; readers
	ver   atomic.Uint32 // odd while the writer changes this run; readers
	stamp atomic.Uint32 // epoch of the last lookup or store that walked over it
	lo    uint32
	lim   uint32
	prev  uint32
	next  uint32
	res   uint32 // growth room: 0 none, 1 in the queue of rooms, 2 in the queue and used since
}

func (r *run) bounds() (base, n uint32) { s := r.span.Load(); return uint32(s >> 32), uint32(s) }
func (r *run) setSpan(base, n uint32)   { r.span.Store(uint64(base)<<32 | uint64(n)) }
func (r *run) lock()                    { r.ver.Store(r.ver.Load() + 1) }
func (r *run) unlock()                  { r.ver.Store(r.ver.Load() + 1) }

const (
	bytesPerBlock = 27 // measured, all tables together; sizes the name table of an index with a budget

	runChunkBits = 10
	runChunk     = 1 << runChunkBits
	runDir       = 1 << 14 // 16 Mi runs
	evictSample  = 32
	freeShare    = 24 // part of a full arena that is kept free
	maxAttempts  = 8  // lookups that keep meeting a writer take the lock instead
)

// Stats are counters of shape and size.
type Stats struct {
	Memberships, Blocks, Runs, Sets      int64
	Bytes, BlockBytes, NameBytes         int64
	RunBytes, HeadBytes, SetBytes        int64
	Conflicts, Evicted, Retries, Merges  int64
	Splits, Shifts, Appends, RunsCreated int64
	Reserved                             int64 // blocks of growth room
	Copied, Joined                       int64 // blocks and runs that compaction moved
}

// Index is a block index of up to `holders` holders (an endpoint in one tier is one holder).
type Index struct {
	mu     sync.Mutex // guards everything that readers do not read
	budget int64      // bytes; negative = unbounded
	noName bool       // blocks have no engine names and are never removed singly (predictions)
	epoch  atomic.Uint32

	blocks arena
	names  names
	heads  heads
	sets   sets

	runs    [runDir]atomic.Pointer[[runChunk]run]
	runsN   uint32 // run ids handed out so far, from 1
	runFree []uint32
	hand    uint32 // eviction clock
	runsHi  atomic.Uint32

	rooms  rooms
	walk   walk  // a long walk that a reader met
	credit int64 // blocks that compaction may copy

	retries atomic.Int64
	st      Stats
}

// DefaultBudget is for about 10 M (block, holder) pairs.
const DefaultBudget = 224 << 20

// Tiers is the number of memory tiers of an endpoint: 0 is GPU memory, 1 the host's, 2 disk, 3 remote.
const Tiers = 4

// HolderOf returns the holder number of an endpoint's tier.
func HolderOf(id, tier int) int { return id*Tiers + tier }

// Config sizes an index.
type Config struct {
	Holders     int   // holder numbers are below this
	BudgetBytes int64 // hard limit; 0: DefaultBudget; negative: none, and a name table that grows
}

// New returns an empty index.
func New(cfg Config) *Index { return newIndex(cfg.Holders, cfg.BudgetBytes, true) }

func newIndex(holders int, budget int64, named bool) *Index {
	if budget == 0 {
		budget = DefaultBudget
	}
	x := &Index{budget: budget, runsN: 1, noName: !named}
	x.sets.init(holders)
	if named {
		x.names.init(&x.blocks, max(budget, 0)/bytesPerBlock)
	}
	x.heads.init()
	return x
}

func (x *Index) run(id uint32) *run {
	return &x.runs[id>>runChunkBits].Load()[id&(runChunk-1)]
}

// Bytes is what the index has taken from the heap.
func (x *Index) Bytes() int64 {
	return x.blocks.bytes + x.names.bytes + x.heads.bytes + x.sets.bytes + int64(x.runsHi.Load())*40 +
		int64(cap(x.runFree))*4 + int64(cap(x.rooms.q))*8
}

// Stats returns the counters.
func (x *Index) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.st
	s.Bytes, s.BlockBytes, s.NameBytes = x.Bytes(), x.blocks.bytes, x.names.bytes
	s.HeadBytes, s.SetBytes, s.RunBytes = x.heads.bytes, x.sets.bytes, int64(x.runsHi.Load())*40
	s.Reserved = x.rooms.sum * granule
	s.Sets, s.Retries, s.Conflicts = int64(len(x.sets.ids)), x.retries.Load(), x.names.conflicts
	return s
}

// Tick starts a new epoch of the eviction clock.
func (x *Index) Tick() { x.epoch.Add(1) }

// Own returns our hash of the block an engine named, for hashing its children.
func (x *Index) Own(holder int, eng uint64) (uint64, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	id, ok := x.names.find(eng)
	if !ok {
		return 0, false
	}
	return x.blocks.own(id).Load(), true
}

// --- writers ---------------------------------------------------------------------------------

// Store records that holder h holds the blocks engs/owns (engine hash, our chained hash), which
// follow each other and follow the block the engine calls parent (hasParent false: the start).
func (x *Index) Store(h int, parent uint64, hasParent bool, engs, owns []uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.makeRoom()
	ep := x.epoch.Load()
	var r, off uint32 // the block before owns[i] is block off-1 of run r (r 0: none)
	if hasParent {
		id, ok := x.names.find(parent)
		if !ok {
			return ErrOrphan
		}
		r = x.owner(id)
		R := x.run(r)
		base, _ := R.bounds()
		off = id - base + 1
		if R.stamp.Load() != ep { // a child is a use
			R.stamp.Store(ep)
		}
	}
	for i := 0; i < len(owns); {
		if r != 0 {
			R := x.run(r)
			base, n := R.bounds()
			if off < n && x.blocks.own(base+off).Load() == owns[i] { // goes on inside the run
				m := x.common(base+off, n-off, owns[i:])
				x.cover(h, r, off, off+m)
				// cover may have moved the boundary; find the place again from the last block.
				i += int(m)
				if i < len(owns) {
					r, off = x.place(base + off + m - 1)
				}
				continue
			}
		}
		if c := x.heads.find(x, owns[i]); c != 0 { // an existing run starts with this block
			C := x.run(c)
			if C.stamp.Load() != ep {
				C.stamp.Store(ep)
			}
			base, n := C.bounds()
			m := x.common(base, n, owns[i:])
			x.cover(h, c, 0, m)
			i += int(m)
			if i < len(owns) {
				r, off = x.place(base + m - 1)
			}
			continue
		}
		// A block nobody holds: append to the holder's own leaf, else start a run.
		if r != 0 {
			R := x.run(r)
			base, n := R.bounds()
			if off == n && R.next == 0 && R.set.Load() == x.sets.single(h) {
				room := R.lim - (base + n)
				if room == 0 {
					if g := x.blocks.extend(R.lim, up(uint32(len(owns)-i)+x.growth(h, r, off, 0))/granule, r); g > 0 {
						R.lim += g * granule
						room = g * granule
					}
				}
				if room > 0 {
					if R.res == 1 {
						R.res = 2
					}
					if R.stamp.Load() != ep {
						R.stamp.Store(ep)
					}
					k := min(room, uint32(len(owns)-i))
					k = x.write(base+n, part(engs, i, int(k)), owns[i:i+int(k)])
					R.lock()
					R.setSpan(base, n+k)
					R.unlock()
					x.reserve(r)
					x.st.Appends += int64(k)
					i += int(k)
					off = n + k
					continue
				}
			}
		}
		want := uint32(len(owns) - i)
		room := x.growth(h, r, off, want)
		nr := x.newRun()
		lo, got := x.blocks.alloc(want+room, nr, x.left(), x.budget > 0, false)
		for got == 0 { // over budget: evict until there is room
			x.evict()
			lo, got = x.blocks.alloc(want, nr, x.left(), x.budget > 0, false)
		}
		k := min(got, want)
		k = x.write(lo, part(engs, i, int(k)), owns[i:i+int(k)])
		N := x.run(nr)
		N.lock()
		N.lo, N.lim, N.prev, N.next, N.res = lo, lo+got, 0, 0, 0
		N.stamp.Store(ep)
		N.set.Store(x.sets.retain(x.sets.single(h)))
		N.setSpan(lo, k)
		N.unlock()
		if k < min(got, want) || room == 0 {
			x.trim(N)
		} else {
			x.reserve(nr)
		}
		x.heads.insert(owns[i], nr)
		x.st.Runs++
		r, off = nr, k
		i += int(k)
	}
	x.credit = min(x.credit+int64(len(owns)), 1<<20)
	switch x.walk.state.Load() {
	case walkFull:
		if x.credit >= copyCost*int64(x.walk.blocks) {
			x.credit -= copyCost * x.compact()
		}
	case walkRest:
		if x.walk.rest--; x.walk.rest <= 0 {
			x.walk.state.Store(walkFree)
		}
	}
	return nil
}

func part(engs []uint64, i, k int) []uint64 {
	if engs == nil {
		return nil
	}
	return engs[i : i+k]
}

// write puts blocks at arena position id, names them and returns how many. It stops before a block
// that is in the index already (one that follows a hole which is being filled): the name tells.
func (x *Index) write(id uint32, engs, owns []uint64) uint32 {
	s, o := x.blocks.seg(id)
	k := uint32(len(owns))
	if x.noName {
		for j := range owns {
			s.own[o+uint32(j)].Store(owns[j])
		}
	}
	for j := 0; j < len(engs); j++ {
		s.own[o+uint32(j)].Store(owns[j])
		if other, taken := x.names.insert(engs[j], id+uint32(j)); taken {
			if j > 0 && x.blocks.own(other).Load() == owns[j] {
				k = uint32(j)
				break
			}
			x.names.conflicts++ // one engine hash, two contents: the later block has no name
		}
		s.eng[o+uint32(j)] = engs[j]
	}
	x.st.Memberships += int64(k)
	x.st.Blocks += int64(k)
	return k
}

// common returns how many of the n blocks from id on are those of owns. Chained hashes: equality at
// one position means equality at all positions before it, so the end is compared first and a
// difference is found by bisection.
func (x *Index) common(id, n uint32, owns []uint64) uint32 {
	m := min(n, uint32(len(owns)))
	s, o := x.blocks.seg(id)
	if s.own[o+m-1].Load() == owns[m-1] {
		return m
	}
	lo, hi := uint32(1), m-1 // the first lo blocks are equal, block hi is not
	for lo < hi {
		mid := (lo + hi) / 2
		if s.own[o+mid].Load() == owns[mid] {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// owner returns the run whose positions contain block id.
func (x *Index) owner(id uint32) uint32 {
	r := x.blocks.owner(id)
	for x.run(r).lim <= id {
		r = x.run(r).next
	}
	return r
}

// place returns the run that block id lives in and the offset after it.
func (x *Index) place(id uint32) (r, off uint32) {
	r = x.owner(id)
	base, _ := x.run(r).bounds()
	return r, id - base + 1
}

// cover makes holder h hold blocks [a, b) of run r.
func (x *Index) cover(h int, r, a, b uint32) {
	set := x.run(r).set.Load()
	ns := x.sets.with(set, h)
	if ns == set {
		return
	}
	x.st.Memberships += int64(b - a)
	x.sets.retain(ns)
	x.recolor(r, a, b, ns)
	x.sets.release(ns)
}

// Remove records that holder h no longer holds the blocks the engine names engs. Unknown names and
// blocks the holder does not hold are ignored.
func (x *Index) Remove(h int, engs []uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.makeRoom()
	for i := 0; i < len(engs); {
		id, ok := x.names.find(engs[i])
		i++
		if !ok {
			continue
		}
		r := x.owner(id)
		R := x.run(r)
		set := R.set.Load()
		ns := x.sets.without(set, h)
		if ns == set {
			continue
		}
		base, n := R.bounds()
		a, b := id-base, id-base+1
		// Engines evict a chain from its end: take the blocks that follow in the list and touch.
		for i < len(engs) {
			if a > 0 && x.blocks.engine(base+a-1) == engs[i] {
				a--
			} else if b < n && x.blocks.engine(base+b) == engs[i] {
				b++
			} else {
				break
			}
			i++
		}
		x.st.Memberships -= int64(b - a)
		x.sets.retain(ns)
		x.recolor(r, a, b, ns)
		x.sets.release(ns)
	}
}

// RemoveHolder forgets everything h holds, in slices between which other writers go on. The caller
// must have stopped h's stores.
func (x *Index) RemoveHolder(h int) {
	const slice = 512
	for at := uint32(1); ; {
		x.mu.Lock()
		end := min(at+slice, x.runsN)
		for ; at < end; at++ {
			R := x.run(at)
			_, n := R.bounds()
			if n == 0 {
				continue
			}
			set := R.set.Load()
			if ns := x.sets.without(set, h); ns != set {
				x.st.Memberships -= int64(n)
				x.sets.retain(ns)
				x.recolor(at, 0, n, ns)
				x.sets.release(ns)
			}
		}
		done := at >= x.runsN
		x.mu.Unlock()
		if done {
			return
		}
	}
}

// recolor gives blocks [a, b) of run r the holder set ns (0: nobody, the blocks go). The rest of the
// run keeps its set. A boundary is moved into the neighbouring run when that run has the set
// already, so that an eviction that eats a chain from one end makes one run, not one per block.
func (x *Index) recolor(r, a, b, ns uint32) {
	R := x.run(r)
	base, n := R.bounds()
	if ns == 0 {
		x.unname(base+a, b-a)
	}
	switch {
	case a == 0 && b == n:
		if ns == 0 {
			x.kill(r)
			return
		}
		R.lock()
		x.setSet(R, ns)
		R.unlock()
		x.merge(r)
	case b == n: // a tail
		if q := R.next; ns != 0 && q != 0 {
			if Q := x.run(q); Q.set.Load() == ns && Q.lo == base+n && x.start(Q) == base+n {
				x.moveBoundary(r, q, base+a)
				return
			}
		}
		if ns == 0 {
			R.lock()
			R.setSpan(base, a)
			R.unlock()
			x.trim(R)
			return
		}
		nr := x.split(r, a, ns)
		x.merge(nr)
	case a == 0: // a head
		if p := R.prev; ns != 0 && p != 0 {
			P := x.run(p)
			if pb, pn := P.bounds(); P.set.Load() == ns && pb+pn == base {
				x.moveBoundary(p, r, base+b)
				return
			}
		}
		if ns == 0 {
			old, now := x.blocks.own(base).Load(), x.blocks.own(base+b).Load()
			R.lock()
			x.heads.insert(now, r)
			R.setSpan(base+b, n-b)
			x.heads.remove(old, r)
			R.unlock()
			x.trim(R)
			return
		}
		x.split(r, b, R.set.Load())
		R.lock()
		x.setSet(R, ns)
		R.unlock()
		x.merge(r)
	default:
		x.split(r, b, R.set.Load())
		x.recolorTail(r, a, b, ns)
	}
}

// recolorTail is recolor of a tail whose names are already gone (if ns is 0).
func (x *Index) recolorTail(r, a, b, ns uint32) {
	R := x.run(r)
	base, _ := R.bounds()
	if ns == 0 {
		R.lock()
		R.setSpan(base, a)
		R.unlock()
		x.trim(R)
		return
	}
	x.split(r, a, ns)
}

func (x *Index) start(r *run) uint32 { b, _ := r.bounds(); return b }

func (x *Index) setSet(r *run, ns uint32) {
	old := r.set.Load()
	x.sets.retain(ns)
	r.set.Store(ns)
	x.sets.release(old)
}

// split cuts run r before its block a; the tail becomes a new run with holder set ns.
func (x *Index) split(r, a, ns uint32) uint32 {
	R := x.run(r)
	base, n := R.bounds()
	nr := x.newRun()
	N := x.run(nr)
	N.lock()
	N.lo, N.lim, N.prev, N.next = base+a, R.lim, r, R.next
	N.stamp.Store(R.stamp.Load())
	N.set.Store(x.sets.retain(ns))
	N.setSpan(base+a, n-a)
	N.unlock()
	if R.next != 0 {
		x.run(R.next).prev = nr
	}
	R.next = nr
	R.lim = base + a
	x.blocks.own2(N.lo, N.lim, nr)
	R.lock()
	x.heads.insert(x.blocks.own(base+a).Load(), nr)
	R.setSpan(base, a)
	R.unlock()
	if R.res != 0 { // the growth room is the tail's
		R.res = 0
		x.reserve(nr)
	}
	x.st.Runs++
	x.st.Splits++
	return nr
}

// moveBoundary moves the boundary between the touching runs p and q (p before q) to block `to`. If
// nothing is left of one of them, it goes.
func (x *Index) moveBoundary(p, q, to uint32) {
	P, Q := x.run(p), x.run(q)
	pb, _ := P.bounds()
	qb, qn := Q.bounds()
	end := qb + qn
	x.st.Shifts++
	P.lock()
	Q.lock()
	if to < end {
		x.heads.insert(x.blocks.own(to).Load(), q)
	}
	P.setSpan(pb, to-pb)
	Q.setSpan(to, end-to)
	x.heads.remove(x.blocks.own(qb).Load(), q)
	if to < qb {
		x.blocks.own2(to, qb, q)
	} else {
		x.blocks.own2(qb, to, p)
	}
	P.lim, Q.lo = to, to
	P.unlock()
	Q.unlock()
	if to == end {
		P.lim = Q.lim
		x.drop(q, p)
	}
}

// merge joins run r with the touching neighbours that have the same holders.
func (x *Index) merge(r uint32) {
	R := x.run(r)
	base, n := R.bounds()
	if q := R.next; q != 0 {
		Q := x.run(q)
		if Q.set.Load() == R.set.Load() && x.start(Q) == base+n {
			_, qn := Q.bounds()
			x.st.Merges++
			x.moveBoundary(r, q, base+n+qn)
		}
	}
	if p := R.prev; p != 0 {
		P := x.run(p)
		pb, pn := P.bounds()
		if P.set.Load() == R.set.Load() && pb+pn == base {
			_, n = R.bounds()
			x.st.Merges++
			x.moveBoundary(p, r, base+n)
		}
	}
}

// kill removes run r; its names are gone already.
func (x *Index) kill(r uint32) {
	R := x.run(r)
	base, _ := R.bounds()
	R.lock()
	R.setSpan(base, 0)
	x.heads.remove(x.blocks.own(base).Load(), r)
	R.unlock()
	heir := R.prev
	if heir != 0 {
		x.run(heir).lim = R.lim
	} else if heir = R.next; heir != 0 {
		x.run(heir).lo = R.lo
	}
	x.drop(r, heir)
	if heir != 0 {
		x.trim(x.run(heir))
	}
}

// drop returns the empty run r to the free list and its positions to heir (0: to the arena).
func (x *Index) drop(r, heir uint32) {
	R := x.run(r)
	if heir != 0 {
		x.blocks.own2(R.lo, R.lim, heir)
	} else {
		x.blocks.free(R.lo, R.lim)
	}
	if R.prev != 0 {
		x.run(R.prev).next = R.next
	}
	if R.next != 0 {
		x.run(R.next).prev = R.prev
	}
	room := R.res != 0
	R.lock()
	x.sets.release(R.set.Load())
	R.set.Store(0)
	R.setSpan(0, 0)
	R.lo, R.lim, R.prev, R.next, R.res = 0, 0, 0, 0, 0
	R.unlock()
	x.runFree = append(x.runFree, r)
	x.st.Runs--
	if room && heir != 0 {
		x.reserve(heir)
	}
}

// trim gives whole granules of dead positions at the ends of a run back to the arena. A neighbour
// beyond such a hole is unlinked: the runs no longer touch.
func (x *Index) trim(R *run) {
	base, n := R.bounds()
	if a := up(base + n); a < R.lim && down(R.lim)-a >= granule {
		cut := down(R.lim)
		if R.next != 0 {
			N := x.run(R.next)
			if cut < R.lim { // the granule is shared with the next run: it is all the next run's now
				N.lo = cut
				x.blocks.own2(cut, cut+1, R.next)
			}
			N.prev, R.next = 0, 0
		} else if cut < R.lim {
			panic("BUG: ragged limit")
		}
		x.blocks.free(a, cut)
		R.lim = a
	}
	if b := down(base); b > R.lo && b-up(R.lo) >= granule {
		cut := up(R.lo)
		if R.prev != 0 {
			P := x.run(R.prev)
			P.lim = cut
			P.next, R.prev = 0, 0
		} else if cut > R.lo {
			panic("BUG: ragged start")
		}
		x.blocks.free(cut, b)
		R.lo = b
	}
}

func (x *Index) unname(id, n uint32) {
	if x.noName {
		x.st.Blocks -= int64(n)
		return
	}
	for j := range n {
		x.names.remove(x.blocks.engine(id+j), id+j)
	}
	x.st.Blocks -= int64(n)
}

func (x *Index) newRun() uint32 {
	x.st.RunsCreated++
	if n := len(x.runFree); n > 0 {
		id := x.runFree[n-1]
		x.runFree = x.runFree[:n-1]
		return id
	}
	id := x.runsN
	if c := id >> runChunkBits; x.runs[c].Load() == nil {
		x.runs[c].Store(new([runChunk]run))
		x.runsHi.Add(runChunk)
	}
	x.runsN++
	return id
}

// makeRoom keeps the run headers, and with them the head table and the sets, within the budget: near
// it, headers are reused. Evicting frees headers and positions, never bytes, so it must not wait for
// the byte count to fall. When the arena cannot grow, a part of it is kept free, so that free stretches
// are long enough for long runs. Called before a store looks anything up.
func (x *Index) makeRoom() {
	if x.budget <= 0 {
		return
	}
	for x.Bytes() > x.budget-x.budget/32 && len(x.runFree) < 64 && x.st.Runs > 16 {
		x.evict()
	}
	if x.left() <= segBytes {
		for x.blocks.freeG < int64(x.blocks.n)*segGran/freeShare && x.st.Runs > 16 {
			x.evict()
		}
	}
}

// left is how many bytes the arena may still take: a part of the budget stays for the tables that grow
// later (headers, heads, sets).
func (x *Index) left() int64 { return x.budget - x.budget/20 - x.Bytes() }

// evict removes one run: of some that the clock hand points at, the one with the greatest age of use
// divided by its holders. What many hold (a shared prompt) is what engines do not send again.
func (x *Index) evict() {
	var best uint32
	var bestScore uint64
	ep := x.epoch.Load()
	for seen := 0; seen < evictSample; {
		x.hand++
		if x.hand >= x.runsN {
			x.hand = 1
		}
		R := x.run(x.hand)
		if _, n := R.bounds(); n == 0 {
			continue
		}
		seen++
		age := uint64(ep - R.stamp.Load())
		if score := (age + 1) << 16 / uint64(1+x.sets.count(R.set.Load())); score > bestScore {
			best, bestScore = x.hand, score
		}
	}
	R := x.run(best)
	_, n := R.bounds()
	x.st.Memberships -= int64(n) * int64(x.sets.count(R.set.Load()))
	x.st.Evicted += int64(n)
	x.recolor(best, 0, n, 0)
}

// --- readers ---------------------------------------------------------------------------------

// Words is the length of a holder mask.
func (x *Index) Words() int { return x.sets.words }

// Match sets depth[h] for every holder h in cand (a bit mask) to the number of leading blocks of
// hashes that h holds. Lock-free; allocates nothing; safe with one writer and many readers.
func (x *Index) Match(hashes []uint64, cand []uint64, depth []uint32) {
	for range maxAttempts {
		if x.match(hashes, cand, depth) {
			return
		}
		x.retries.Add(1)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.match(hashes, cand, depth) {
		panic("BUG: lookup failed under the lock")
	}
}

func (x *Index) match(hashes []uint64, cand []uint64, depth []uint32) bool {
	var alive [maxWords]uint64
	w := copy(alive[:], cand)
	pos := 0
	var prev *run
	var prevVer, prevSet, same uint32
	ep := x.epoch.Load()
	for pos < len(hashes) {
		_, r, ver, base, n, ok := x.heads.lookup(x, hashes[pos])
		if !ok {
			return false
		}
		// What came before must still stand after the next step was found: a boundary that moved in
		// between would have hidden the next run.
		if prev != nil && prev.ver.Load() != prevVer {
			return false
		}
		if r == nil {
			break
		}
		m := x.common(base, n, hashes[pos:])
		set := r.set.Load()
		if set == 0 {
			return false // the run went away
		}
		var any uint64
		if h := set - 1; h < singles { // one holder
			for i := range alive[:w] {
				var s uint64
				if int(h>>6) == i {
					s = 1 << (h & 63)
				}
				if d := alive[i] &^ s; d != 0 {
					emit(d, i, pos, depth)
				}
				alive[i] &= s
				any |= alive[i]
			}
		} else {
			words := x.sets.get(set)
			for i := range alive[:w] {
				s := words[i].Load()
				if d := alive[i] &^ s; d != 0 {
					emit(d, i, pos, depth)
				}
				alive[i] &= s
				any |= alive[i]
			}
		}
		if r.ver.Load() != ver {
			return false
		}
		if r.stamp.Load() != ep {
			r.stamp.Store(ep)
		}
		if any == 0 {
			break
		}
		pos += int(m)
		if set == prevSet {
			same++
		}
		prev, prevVer, prevSet = r, ver, set
	}
	if same >= longWalk && x.walk.state.Load() == walkFree {
		x.note(hashes)
	}
	for i := range alive[:w] {
		emit(alive[i], i, pos, depth)
	}
	return true
}

func emit(word uint64, i, pos int, depth []uint32) {
	for ; word != 0; word &= word - 1 {
		depth[i<<6+bits.TrailingZeros64(word)] = uint32(pos)
	}
}
