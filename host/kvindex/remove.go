package kvindex

// sliceRuns is how many runs RemoveHolder looks at under the lock at a time:
// about 0.1 ms if it has to change all of them.
const sliceRuns = 512

// Remove records that holder no longer holds the blocks the engine names
// engine, in any order. Names it does not use and blocks it does not hold are
// ignored. If it uses a name for several contents, all of them are removed.
func (x *Index) Remove(holder int, engine []uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.makeRoom(0)
	for len(engine) > 0 {
		engine = engine[x.removeNext(holder, engine):]
	}
}

// removeNext takes from h the blocks it calls engine[0], and of the names that
// follow those whose blocks touch: engines evict a chain from its end. It
// returns how many names were handled.
func (x *Index) removeNext(h int, engine []uint64) (n int) {
	n = 1
	for id, ok := x.block(h, engine[0]); ok; id, ok = x.block(h, engine[0]) {
		r := x.owner(id)
		base, live := x.runs.at(r).bounds()
		a, b := id-base, id-base+1
		m := 1
		for ; m < len(engine); m++ {
			if a > 0 && x.calls(h, base+a-1, engine[m]) {
				a--
			} else if b < live && x.calls(h, base+b, engine[m]) {
				b++
			} else {
				break
			}
		}
		// A holder with aliases may use one of these names for other blocks too.
		if !x.aliases.has(h) {
			n = m
		}
		x.leave(h, r, a, b)
	}
	return n
}

// calls reports whether h calls block id, which it holds, engine.
func (x *Index) calls(h int, id uint32, engine uint64) bool {
	if !x.aliases.has(h) { // then all of its names are canonical
		return x.blocks.engine(id) == engine
	}
	got, ok := x.block(h, engine)
	return ok && got == id
}

// leave makes holder h, which holds run r, not hold its blocks [a, b).
func (x *Index) leave(h int, r, a, b uint32) {
	R := x.runs.at(r)
	x.unalias(h, R.start()+a, b-a)
	x.account(h, -int64(b-a))
	ns := x.sets.without(R.set.Load(), h)
	x.sets.retain(ns)
	x.recolor(r, a, b, ns)
	x.sets.release(ns)
}

// RemoveHolder removes everything the holder holds: its engine is gone, restarted
// or freed its memory. It works in slices, between which other writers proceed;
// readers never wait. The caller must not store for the same holder meanwhile.
func (x *Index) RemoveHolder(holder int) {
	// A run that others split or compact meanwhile may move behind the scan: scan
	// until nothing is left.
	for at := uint32(1); !x.removeSlice(holder, at, at+sliceRuns); {
		if at += sliceRuns; at >= x.handedOut() {
			at = 1
		}
	}
}

func (x *Index) handedOut() uint32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.runs.n
}

// removeSlice takes runs [at, end) from holder h and reports whether it holds
// nothing any longer.
func (x *Index) removeSlice(h int, at, end uint32) (done bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for ; at < min(end, x.runs.n) && x.held[h] > 0; at++ {
		R := x.runs.at(at)
		if _, n := R.bounds(); n > 0 && x.sets.has(R.set.Load(), h) {
			x.leave(h, at, 0, n)
		}
	}
	return x.held[h] == 0
}
