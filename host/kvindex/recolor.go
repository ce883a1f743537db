package kvindex

// recolor gives blocks [a, b) of run r the holder set ns (0: none, the blocks are
// removed). The rest of the run keeps its set. The boundary is moved into the
// neighbouring run when that run has the set already, so that evictions of a chain
// from one end make one run, not one per block. The caller holds a reference to ns,
// and has dropped the aliases of holders that are not in ns.
func (x *Index) recolor(r, a, b, ns uint32) {
	R := x.runs.at(r)
	base, n := R.bounds()
	if ns == 0 {
		x.unname(base+a, b-a)
	}
	switch {
	case a == 0 && b == n:
		x.recolorAll(r, ns)
	case b == n:
		x.recolorTail(r, a, ns, true)
	case a == 0:
		x.recolorHead(r, b, ns)
	default:
		x.split(r, b, R.set.Load())
		x.recolorTail(r, a, ns, false)
	}
}

func (x *Index) recolorAll(r, ns uint32) {
	if ns == 0 {
		x.kill(r)
		return
	}
	R := x.runs.at(r)
	R.lock()
	x.setSet(R, ns)
	R.unlock()
	x.merge(r)
}

// recolorTail is recolor of blocks from a on. join: the tail may be joined with
// what follows.
func (x *Index) recolorTail(r, a, ns uint32, join bool) {
	R := x.runs.at(r)
	base, n := R.bounds()
	if ns == 0 {
		R.lock()
		R.setSpan(base, a)
		R.unlock()
		x.trim(R)
		return
	}
	if q := R.next; join && q != 0 {
		if Q := x.runs.at(q); Q.set.Load() == ns && Q.lo == base+n && Q.start() == base+n {
			x.moveBoundary(r, q, base+a)
			return
		}
	}
	t := x.split(r, a, ns)
	if join {
		x.merge(t)
	}
}

// recolorHead is recolor of blocks up to b.
func (x *Index) recolorHead(r, b, ns uint32) {
	R := x.runs.at(r)
	base := R.start()
	if ns == 0 {
		x.behead(r, b)
		x.trim(R)
		return
	}
	if p := R.prev; p != 0 {
		P := x.runs.at(p)
		if pb, pn := P.bounds(); P.set.Load() == ns && pb+pn == base {
			x.moveBoundary(p, r, base+b)
			return
		}
	}
	x.split(r, b, R.set.Load())
	R.lock()
	x.setSet(R, ns)
	R.unlock()
	x.merge(r)
}

// behead cuts the first b blocks off run r, fewer than it has. They must have no
// names any longer.
func (x *Index) behead(r, b uint32) {
	R := x.runs.at(r)
	base, n := R.bounds()
	old, now := x.blocks.own(base).Load(), x.blocks.own(base+b).Load()
	R.lock()
	x.heads.insert(now, r)
	R.setSpan(base+b, n-b)
	x.heads.remove(old, r)
	R.unlock()
}

func (x *Index) setSet(r *run, ns uint32) {
	old := r.set.Load()
	x.sets.retain(ns)
	r.set.Store(ns)
	x.sets.release(old)
}

// split cuts run r before its block a; the tail becomes a run with holder set
// ns, which is returned.
func (x *Index) split(r, a, ns uint32) uint32 {
	R := x.runs.at(r)
	base, n := R.bounds()
	t := x.runs.take()
	x.create(t, base+a, n-a, R.lim, ns, R.stamp.Load())
	T := x.runs.at(t)
	T.prev, T.next = r, R.next
	if R.next != 0 {
		x.runs.at(R.next).prev = t
	}
	R.next = t
	R.lim = base + a
	x.blocks.assign(T.lo, T.lim, t)
	R.lock()
	x.heads.insert(x.blocks.own(base+a).Load(), t)
	R.setSpan(base, a)
	R.unlock()
	if R.res != roomNone { // the growth room is the tail's
		R.res = roomNone
		x.reserve(t)
	}
	x.st.Splits++
	return t
}

// moveBoundary moves the boundary between the touching runs p and q, p before
// q, to block `to`. If nothing is left of q, it is freed.
func (x *Index) moveBoundary(p, q, to uint32) {
	P, Q := x.runs.at(p), x.runs.at(q)
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
		x.blocks.assign(to, qb, q)
	} else {
		x.blocks.assign(qb, to, p)
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
	R := x.runs.at(r)
	if q := R.next; q != 0 {
		base, n := R.bounds()
		Q := x.runs.at(q)
		if qb, qn := Q.bounds(); Q.set.Load() == R.set.Load() && qb == base+n {
			x.st.Merges++
			x.moveBoundary(r, q, qb+qn)
		}
	}
	if p := R.prev; p != 0 {
		base, n := R.bounds()
		P := x.runs.at(p)
		if pb, pn := P.bounds(); P.set.Load() == R.set.Load() && pb+pn == base {
			x.st.Merges++
			x.moveBoundary(p, r, base+n)
		}
	}
}

// kill removes run r, whose blocks have no names any longer.
func (x *Index) kill(r uint32) {
	R := x.runs.at(r)
	base, _ := R.bounds()
	R.lock()
	R.setSpan(base, 0)
	x.heads.remove(x.blocks.own(base).Load(), r)
	R.unlock()
	x.freeRun(r)
}

// freeRun returns run r, which has no blocks and no head any longer, to the free
// list and its positions to an adjacent run or to the arena.
func (x *Index) freeRun(r uint32) {
	R := x.runs.at(r)
	neighbour := R.prev
	if neighbour != 0 {
		x.runs.at(neighbour).lim = R.lim
	} else if neighbour = R.next; neighbour != 0 {
		x.runs.at(neighbour).lo = R.lo
	}
	x.drop(r, neighbour)
	if neighbour != 0 {
		x.trim(x.runs.at(neighbour))
	}
}

// drop returns the empty run r to the free list and its positions to the run neighbour,
// or with neighbour 0 to the arena.
func (x *Index) drop(r, neighbour uint32) {
	R := x.runs.at(r)
	if neighbour != 0 {
		x.blocks.assign(R.lo, R.lim, neighbour)
	} else {
		x.blocks.free(R.lo, R.lim)
	}
	if R.prev != 0 {
		x.runs.at(R.prev).next = R.next
	}
	if R.next != 0 {
		x.runs.at(R.next).prev = R.prev
	}
	room := R.res != roomNone
	R.lock()
	x.sets.release(R.set.Load())
	R.set.Store(0)
	R.setSpan(0, 0)
	R.lo, R.lim, R.prev, R.next, R.res = 0, 0, 0, 0, roomNone
	R.unlock()
	x.runs.give(r)
	x.st.Runs--
	if room && neighbour != 0 {
		x.reserve(neighbour)
	}
}

// trim gives whole granules of dead positions at the ends of a run back to the
// arena. A neighbour beyond such a hole is unlinked: the runs no longer touch.
func (x *Index) trim(R *run) {
	base, n := R.bounds()
	if a, cut := up(base+n), down(R.lim); a < R.lim && cut >= a+granule {
		if R.next != 0 {
			N := x.runs.at(R.next)
			if cut < R.lim { // the granule is shared with the next run: it is all the next run's now
				N.lo = cut
				x.blocks.assign(cut, cut+1, R.next)
			}
			N.prev, R.next = 0, 0
		} else if cut < R.lim {
			panic("BUG: kvindex: ragged limit")
		}
		x.blocks.free(a, cut)
		R.lim = a
	}
	if b, cut := down(base), up(R.lo); b > R.lo && b >= cut+granule {
		if R.prev != 0 {
			P := x.runs.at(R.prev)
			P.lim = cut
			P.next, R.prev = 0, 0
		} else if cut > R.lo {
			panic("BUG: kvindex: ragged start")
		}
		x.blocks.free(cut, b)
		R.lo = b
	}
}
