package kvindex

import "sync/atomic"

const (
	longWalk   = 6   // boundaries between runs of one set on a lookup's path that make it worth noting
	maxWalk    = 512 // runs of a walk that are looked at
	restStores = 256 // Stores until the next walk is taken after one with nothing to join
)

// walk is a mailbox for one list of runs that a lookup walked over, each
// followed by the next. A reader that claims it (walkFree → walkBusy) fills it;
// the writer empties it.
type walk struct {
	state atomic.Uint32
	rest  int // Stores until the next walk is taken; writer
	n     int // steps; for the reader or writer by state
	steps [maxWalk]step
}

// step is a run and the version under which it is followed by the next step.
// Run 0 is a gap: what follows does not follow what came before.
type step struct{ run, ver uint32 }

// States of walk.state.
const (
	walkFree = iota
	walkBusy // a reader writes
	walkFull // the writer's
	walkRest // the last one gave nothing to join
)

// note repeats the walk of hashes and leaves it for the writer. Readers call
// it, rarely.
func (x *Index) note(hashes []uint64) {
	w := &x.walk
	if !w.state.CompareAndSwap(walkFree, walkBusy) {
		return
	}
	w.n = 0
	for pos := 0; pos < len(hashes) && w.n < maxWalk; {
		id, r, ver, base, n, ok := x.heads.lookup(x, hashes[pos])
		if !ok || r == nil {
			break
		}
		m := x.common(base, n, hashes[pos:])
		if r.ver.Load() != ver {
			break
		}
		w.steps[w.n] = step{id, ver}
		w.n++
		pos += int(m)
		if m < n && w.n < maxWalk {
			w.steps[w.n] = step{}
			w.n++
		}
	}
	w.state.Store(walkFull)
}

// Steps returns the number of runs on the path of hashes, which is the cost of their
// lookup. It is for measurements.
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
