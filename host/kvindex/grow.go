package kvindex

import (
	"sync/atomic"
	"time"
)

// Runs must stay long although engines send the blocks of many chains in turn: a lookup pays per run.
// Two means: a run that ends a chain gets room to grow in place, and runs that follow each other with
// the same holders are copied into one when a lookup met many of them.

const (
	minRoom   = 32   // blocks of room behind a new leaf, at least
	maxRoom   = 4096 // and at most
	roomShare = 16   // at most this part of the arena is room

	longWalk   = 6   // steps of a lookup that compaction would save
	maxWalk    = 512 // runs of a walk that are looked at
	restStores = 256
	copyCost   = 8 // blocks to be stored per block that may be copied
)

// rooms is the queue of runs with growth room, oldest first; a run that used its room since it was
// queued is queued again, another one loses it. So the room goes to the chains that grow.
type rooms struct {
	q    []room
	head int
	sum  int64 // granules
}

type room struct{ run, granules uint32 }

// growth is how many blocks of room a new run of `want` blocks behind block off-1 of run r gets:
// half of what the leaf it continues is long, if that is more.
func (x *Index) growth(h int, r, off, want uint32) uint32 {
	if x.noName {
		return 0
	}
	if r != 0 {
		R := x.run(r)
		if _, n := R.bounds(); off == n && R.set.Load() == x.sets.single(h) {
			want = max(want, n/2)
		}
	}
	return min(max(want, minRoom), maxRoom)
}

// reserve queues the room behind run r.
func (x *Index) reserve(r uint32) {
	R := x.run(r)
	if R.res != 0 || R.next != 0 {
		return
	}
	base, n := R.bounds()
	g := (R.lim - up(base+n)) / granule
	if g == 0 {
		return
	}
	R.res = 1
	q := &x.rooms
	if q.head > 1024 && q.head > len(q.q)/2 {
		q.q = q.q[:copy(q.q, q.q[q.head:])]
		q.head = 0
	}
	q.q = append(q.q, room{r, g})
	q.sum += int64(g)
	limit := max(int64(x.blocks.n)*segGran/roomShare, segGran/4)
	for try := 0; q.sum > limit && try < 16 && q.head < len(q.q)-1; try++ {
		e := q.q[q.head]
		q.head++
		q.sum -= int64(e.granules)
		E := x.run(e.run)
		switch E.res {
		case 2:
			base, n := E.bounds()
			E.res = 0
			if g := (E.lim - up(base+n)) / granule; g > 0 && E.next == 0 {
				E.res = 1
				q.q = append(q.q, room{e.run, g})
				q.sum += int64(g)
			}
		case 1:
			E.res = 0
			x.trim(E)
		}
	}
}

// walk is a mailbox for one list of runs that a lookup walked over, each followed by the next.
type walk struct {
	state  atomic.Uint32
	rest   int // stores until the next walk is taken
	n      int
	blocks uint32
	runs   [maxWalk]struct{ id, ver uint32 }
}

const (
	walkFree = iota
	walkBusy
	walkFull
	walkRest // the last one led to nothing
)

// note repeats the walk of hashes and leaves it for the writer. Readers call it, rarely.
func (x *Index) note(hashes []uint64) {
	w := &x.walk
	if !w.state.CompareAndSwap(walkFree, walkBusy) {
		return
	}
	w.n, w.blocks = 0, 0
	for pos := 0; pos < len(hashes) && w.n < maxWalk; {
		id, r, ver, base, n, ok := x.heads.lookup(x, hashes[pos])
		if !ok || r == nil {
			break
		}
		m := x.common(base, n, hashes[pos:])
		if r.ver.Load() != ver {
			break
		}
		w.runs[w.n].id, w.runs[w.n].ver = id, ver
		w.n++
		w.blocks += n
		pos += int(m)
		if m < n && w.n < maxWalk { // what follows does not follow this run: a gap in the list
			w.runs[w.n].id, w.runs[w.n].ver = 0, 1
			w.n++
		}
	}
	w.state.Store(walkFull)
}

// Maintain does what waits for idle time; the owner calls it between events.
func (x *Index) Maintain(budget time.Duration) {
	switch x.walk.state.Load() {
	case walkFull:
		x.mu.Lock()
		x.compact()
		x.mu.Unlock()
	case walkRest:
		x.walk.state.CompareAndSwap(walkRest, walkFree)
	}
}

// compact copies runs of the walk in the mailbox together and returns the blocks copied. A run whose
// version is unchanged is still what the reader saw, so it still precedes the next one.
func (x *Index) compact() (copied int64) {
	w := &x.walk
	if w.state.Load() != walkFull {
		return 0
	}
	defer func() {
		if copied > 0 {
			w.state.Store(walkFree)
			return
		}
		w.rest = restStores
		w.state.Store(walkRest)
	}()
	for i := 0; i < w.n; {
		first := x.run(w.runs[i].id)
		if first.ver.Load() != w.runs[i].ver {
			i++
			continue
		}
		set := first.set.Load()
		_, total := first.bounds()
		largest := total
		j := i + 1
		for ; j < w.n; j++ {
			R := x.run(w.runs[j].id)
			_, n := R.bounds()
			if R.ver.Load() != w.runs[j].ver || R.set.Load() != set || total+n > maxPiece*granule {
				break
			}
			total += n
			largest = max(largest, n)
		}
		if j-i >= 4 || j-i >= 2 && largest <= total/2 {
			if x.join(w, i, j, total) {
				copied += int64(total)
			}
		}
		i = j
	}
	return copied
}

// join copies runs i..j-1 of the walk into one. Readers find the old first run or the new one; the
// old ones go in order, so that a reader within them sees the version of the one before change.
func (x *Index) join(w *walk, i, j int, total uint32) bool {
	if x.budget > 0 && x.left() <= segBytes && x.blocks.freeG*granule < 4*int64(total) {
		return false
	}
	last := x.run(w.runs[j-1].id)
	room := uint32(0)
	if last.res != 0 {
		room = min(max(total/4, minRoom), maxRoom)
	}
	nr := x.newRun()
	lo, got := x.blocks.alloc(total+room, nr, x.left(), x.budget > 0, true)
	if got < total {
		if got > 0 {
			x.blocks.free(lo, lo+got)
		}
		x.runFree = append(x.runFree, nr)
		return false
	}
	N := x.run(nr)
	N.lock()
	N.lo, N.lim, N.prev, N.next, N.res = lo, lo+got, 0, 0, 0
	stamp, to := uint32(0), lo
	ep := x.epoch.Load()
	age := ^uint32(0)
	for k := i; k < j; k++ {
		R := x.run(w.runs[k].id)
		if a := ep - R.stamp.Load(); a < age {
			age, stamp = a, R.stamp.Load()
		}
		base, n := R.bounds()
		s, o := x.blocks.seg(base)
		t, p := x.blocks.seg(to)
		for b := range n {
			t.own[p+b].Store(s.own[o+b].Load())
		}
		if !x.noName {
			copy(t.eng[p:p+n], s.eng[o:o+n])
			for b := range n {
				x.names.move(s.eng[o+b], base+b, to+b)
			}
		}
		to += n
	}
	first := x.run(w.runs[i].id)
	key := x.blocks.own(lo).Load()
	N.stamp.Store(stamp)
	N.set.Store(x.sets.retain(first.set.Load()))
	N.setSpan(lo, total)
	N.unlock()
	x.heads.insert(key, nr)
	x.st.Runs++
	for k := i; k < j; k++ {
		x.kill(w.runs[k].id)
	}
	if room > 0 {
		x.reserve(nr)
	} else {
		x.trim(N)
	}
	x.st.Copied += int64(total)
	x.st.Joined += int64(j - i)
	return true
}

// Steps returns the number of runs on the path of hashes.
func (x *Index) Steps(hashes []uint64) (steps int) {
	for pos := 0; pos < len(hashes); steps++ {
		_, r, _, base, n, ok := x.heads.lookup(x, hashes[pos])
		if !ok || r == nil {
			break
		}
		pos += int(x.common(base, n, hashes[pos:]))
	}
	return steps
}
