package kvindex

import "time"

// Compaction is the second way to keep runs long: stretches of a walk whose runs
// have one holder set are moved into one run. It is done in slices, in idle time
// (Maintain) or in proportion to Stores. The index is valid between slices, because
// a slice moves the boundary between the run that is being filled (dst) and the next
// run of the walk, which loses the blocks at its head. What no lookup uses is never
// moved.
//
// A run whose version is unchanged is still as the reader saw it, so it still
// precedes the next one; a run that another writer changed ends the stretch.

const (
	sliceBlocks = 256                    // blocks moved between two readings of the clock, about 20 µs
	sliceTime   = 200 * time.Microsecond // under the lock at a time
	copyCost    = 8                      // blocks stored per block that may be moved beside Stores
	maxCredit   = 1 << 20
)

// compaction is the state between two slices. Writers only.
type compaction struct {
	at     int    // next step of the walk
	end    int    // end of the stretch that is being joined
	dst    uint32 // run that is being filled, 0: none
	ver    uint32 // its version after the last slice
	room   bool   // dst is to keep room to grow
	copied int64  // blocks moved for this walk
}

// Maintain does deferred work for at most about d. It holds the writer lock for at
// most 0.3 ms at a time; readers never wait. The owner calls it between events.
func (x *Index) Maintain(d time.Duration) {
	for start := time.Now(); time.Since(start) < d && x.maintainSlice(); {
	}
}

// maintainSlice does a slice of it and reports whether there is more.
func (x *Index) maintainSlice() bool {
	switch x.walk.state.Load() {
	case walkRest:
		x.walk.state.CompareAndSwap(walkRest, walkFree)
		return false
	case walkFull:
	default:
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for start := time.Now(); time.Since(start) < sliceTime; {
		if x.walk.state.Load() != walkFull {
			return false
		}
		x.compact(sliceBlocks)
	}
	return true
}

// spend compacts in proportion to the Stores since the last call.
func (x *Index) spend() {
	switch x.walk.state.Load() {
	case walkFull:
		for x.credit >= copyCost*sliceBlocks && x.walk.state.Load() == walkFull {
			x.credit -= copyCost * int64(x.compact(sliceBlocks))
			x.credit -= copyCost
		}
	case walkRest:
		if x.walk.rest--; x.walk.rest <= 0 {
			x.walk.state.Store(walkFree)
		}
	}
}

// compact moves at most limit blocks, within one pair of runs, and returns how
// many. The mailbox must be full; it is emptied when the walk is done.
func (x *Index) compact(limit uint32) uint32 {
	w, j := &x.walk, &x.job
	if j.dst == 0 && !x.nextStretch() {
		if j.copied > 0 {
			w.state.Store(walkFree)
		} else {
			w.rest = restStores
			w.state.Store(walkRest)
		}
		*j = compaction{}
		return 0
	}
	s := &w.steps[j.at]
	src, dst := x.runs.at(s.run), x.runs.at(j.dst)
	if src.ver.Load() != s.ver || dst.ver.Load() != j.ver {
		x.finish(false)
		return 0
	}
	_, n := src.bounds()
	n = min(n, limit)
	whole := x.shift(j.dst, s.run, n)
	j.ver, s.ver = dst.ver.Load(), src.ver.Load()
	j.copied += int64(n)
	x.st.Copied += int64(n)
	if whole {
		x.st.Joined++
		if j.at++; j.at == j.end {
			x.finish(true)
		}
	}
	return n
}

// nextStretch finds the next stretch of the walk to join and allocates the run for
// it. It returns false at the end of the walk.
func (x *Index) nextStretch() bool {
	w, j := &x.walk, &x.job
	for j.at < w.n {
		end, total, largest := x.stretch(j.at)
		n := end - j.at
		if (n >= 4 || n >= 2 && largest <= total/2) && x.begin(end, total) {
			return true
		}
		j.at = max(end, j.at+1)
	}
	return false
}

// stretch returns the end of the runs from step i on that can be joined, their
// blocks and the blocks of the largest.
func (x *Index) stretch(i int) (end int, total, largest uint32) {
	w := &x.walk
	var set uint32
	for end = i; end < w.n; end++ {
		R := x.runs.at(max(w.steps[end].run, 1))
		_, n := R.bounds()
		if w.steps[end].run == 0 || R.ver.Load() != w.steps[end].ver || total+n > maxPiece*granule {
			break
		}
		if end == i {
			set = R.set.Load()
		} else if R.set.Load() != set {
			break
		}
		total += n
		largest = max(largest, n)
	}
	return end, total, largest
}

// begin allocates the run for steps job.at to end. It is not part of the index
// until the first slice gives it blocks.
func (x *Index) begin(end int, total uint32) bool {
	if !x.mayGrow() && x.blocks.freeG*granule < 4*int64(total) {
		return false
	}
	j := &x.job
	room := uint32(0)
	if last := x.runs.at(x.walk.steps[end-1].run); last.res != roomNone {
		room = min(max(total/4, minRoom), maxRoom)
	}
	dst := x.runs.take()
	lo, got := x.blocks.alloc(total+room, dst, x.mayGrow(), true)
	if got < total {
		if got > 0 {
			x.blocks.free(lo, lo+got)
		}
		x.runs.give(dst)
		return false
	}
	D, first := x.runs.at(dst), x.runs.at(x.walk.steps[j.at].run)
	x.create(dst, lo, 0, lo+got, first.set.Load(), first.stamp.Load())
	D.res = roomOwed
	j.dst, j.end, j.ver, j.room = dst, end, D.ver.Load(), room > 0
	return true
}

// shift moves the first n blocks of run src to the end of run dst, which has
// the same holders and the positions for them, and reports whether that was all
// of src. Readers within src or dst see a version change; readers about to step
// from the preceding run find one or the other.
func (x *Index) shift(dst, src, n uint32) (whole bool) {
	D, S := x.runs.at(dst), x.runs.at(src)
	base, live := D.bounds()
	from, left := S.bounds()
	to := base + live
	s, o := x.blocks.seg(from)
	t, p := x.blocks.seg(to)
	for j := range n {
		t.own[p+j].Store(s.own[o+j].Load())
	}
	if x.named {
		x.rename(from, to, n, D.set.Load())
	}
	if epoch := x.epoch.Load(); epoch-S.stamp.Load() < epoch-D.stamp.Load() {
		D.stamp.Store(S.stamp.Load())
	}
	D.lock()
	S.lock()
	if live == 0 {
		x.heads.insert(t.own[p].Load(), dst)
	}
	if n < left {
		x.heads.insert(s.own[o+n].Load(), src)
	}
	D.setSpan(base, live+n)
	S.setSpan(from+n, left-n)
	x.heads.remove(s.own[o].Load(), src)
	D.unlock()
	S.unlock()
	if n < left {
		x.trim(S)
		return false
	}
	x.freeRun(src)
	return true
}

// finish ends the joining of a stretch: completely, or because another writer
// changed one of its runs.
func (x *Index) finish(whole bool) {
	j := &x.job
	D := x.runs.at(j.dst)
	unchanged := D.ver.Load() == j.ver
	D.res = roomNone
	if unchanged && !(whole && j.room) {
		x.trim(D)
	} else {
		x.reserve(j.dst) // harmless if it is another run by now
	}
	j.dst = 0
}
