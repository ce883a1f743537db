package kvindex

// Runs must stay long although engines send the blocks of many chains in turn:
// a lookup pays per run. The first means: the end of a chain gets room to grow
// in place, half its length but at most maxRoom. All rooms together take at
// most 1/roomShare of the arena: they stand in a queue, oldest first, and one
// that was not used since it was queued is taken back. So the room goes to the
// chains that grow. (The second means is compact.go.)

const (
	minRoom   = 32   // blocks of room behind a new leaf, at least
	maxRoom   = 4096 // and at most
	roomShare = 16   // at most this part of the arena is room
	roomTries = 16   // rooms looked at when there are too many
)

// States of run.res.
const (
	roomNone   = iota
	roomQueued // in the queue
	roomUsed   // in the queue, and used since
	roomOwed   // compaction is filling it; not in the queue
)

// rooms is the queue of runs with growth room.
type rooms struct {
	q    []room
	head int
	sum  int64 // granules of the entries
}

type room struct{ run, granules uint32 }

func (q *rooms) push(run, granules uint32) {
	if q.head > 1024 && q.head > len(q.q)/2 {
		q.q = q.q[:copy(q.q, q.q[q.head:])]
		q.head = 0
	}
	q.q = append(q.q, room{run, granules})
	q.sum += int64(granules)
}

func (q *rooms) pop() uint32 {
	e := q.q[q.head]
	q.head++
	q.sum -= int64(e.granules)
	return e.run
}

func (q *rooms) len() int { return len(q.q) - q.head }

// growth is how many blocks of room h's chain gets behind `want` blocks that
// are stored at the cursor: as many, or half of the leaf it continues.
func (x *Index) growth(h int, at cursor, want uint32) uint32 {
	if !x.named { // predictions do not grow
		return 0
	}
	if at.run != 0 {
		R := x.runs.at(at.run)
		if _, n := R.bounds(); at.off == n && R.set.Load() == single(h) {
			want = max(want, n/2)
		}
	}
	return min(max(want, minRoom), maxRoom)
}

// roomOf is how many granules of room are behind a run.
func roomOf(R *run) uint32 {
	base, n := R.bounds()
	if end := up(base + n); R.next == 0 && end < R.lim {
		return (R.lim - end) / granule
	}
	return 0
}

// reserve queues the room behind run r, if it is not queued yet.
func (x *Index) reserve(r uint32) {
	R := x.runs.at(r)
	g := roomOf(R)
	if R.res != roomNone || g == 0 {
		return
	}
	R.res = roomQueued
	q := &x.rooms
	q.push(r, g)
	limit := max(x.blocks.granules()/roomShare, segGran/4)
	for try := 0; q.sum > limit && try < roomTries && q.len() > 1; try++ {
		x.reconsider(q.pop())
	}
}

// reconsider takes the room of a run that was not used back, and queues it
// again if it was.
func (x *Index) reconsider(r uint32) {
	R := x.runs.at(r)
	switch R.res {
	case roomUsed:
		R.res = roomNone
		if g := roomOf(R); g > 0 {
			R.res = roomQueued
			x.rooms.push(r, g)
		}
	case roomQueued:
		R.res = roomNone
		x.trim(R)
	}
}
