package kvindex

const (
	evictSample = 32
	freeShare   = 24 // part of a full arena that is kept free, so that free stretches are long
	fewRuns     = 16 // an index of fewer runs does not evict in advance
	spareRuns   = 64 // free headers kept when the budget is reached
	spareSets   = 64 // and free sets

	aliasTries = 16 // evictions for a Store that needs aliases
)

// left is how many bytes the arena may still take: a twentieth of the budget
// is kept for the tables that grow later (headers, heads, sets, aliases).
func (x *Index) left() int64 { return x.budget - x.budget/20 - x.bytes() }

// mayGrow reports whether the arena may take another segment. It may always take
// the first one: budgets are large enough for that.
func (x *Index) mayGrow() bool {
	return x.budget < 0 || x.blocks.live == 0 || x.left() > x.blocks.segBytes()
}

// makeRoom evicts what is needed so that a Store of n blocks keeps within the
// budget. It is called before anything is looked up, since it moves and frees
// runs.
//
// Evicting frees headers and positions, not bytes, so it must not wait for the
// byte count to fall.
func (x *Index) makeRoom(n int) {
	if x.budget < 0 {
		return
	}
	x.names.left = x.tablesLeft()
	for x.named && x.st.Blocks*64 > x.names.slots*51 && x.st.Runs > fewRuns { // 0.8
		x.evict()
	}
	for x.tight() && len(x.runs.free) < spareRuns && x.st.Runs > fewRuns {
		x.evict()
	}
	for x.tight() && x.sets.spare() < spareSets && x.evictShared() {
	}
	if !x.mayGrow() {
		for x.blocks.freeG < x.blocks.granules()/freeShare && x.st.Runs > fewRuns {
			x.evict()
		}
	}
	if x.aliases.total > 0 || x.aliases.hungry {
		x.makeAliasRoom(n)
	}
}

// tight reports whether the tables beside the arena should stop growing.
func (x *Index) tight() bool {
	return x.bytes() > x.budget-x.budget/32 ||
		x.runs.n > runDir*runChunk-2*runChunk || len(x.sets.meta) > setDir*setChunk-2*runChunk
}

// makeAliasRoom frees n alias entries, if the budget allows. The arena shrinks until
// aliases have half of the budget: it may have been full before the first engine
// that needs aliases appeared.
func (x *Index) makeAliasRoom(n int) {
	for try := 0; x.aliases.nfree < n && x.st.Runs > fewRuns && try < aliasTries; try++ {
		switch {
		case x.aliases.grow(x.tablesLeft()):
			try--
		case x.blocks.live > 1 && x.aliases.bytes < x.budget/2:
			x.releaseSegment()
		default:
			x.evict()
		}
	}
	x.aliases.hungry = false
}

// evict removes one run: of a sample at the clock hand, the one with the greatest
// age divided by its holders. Engines do not report a block again that many hold
// (a shared prompt).
func (x *Index) evict() {
	r := x.victim(1)
	if r == 0 {
		panic("BUG: kvindex: nothing to evict")
	}
	x.evictRun(r)
}

// evictShared is evict of a run with two holders or more, whose set may become
// free. It reports whether there is one.
func (x *Index) evictShared() bool {
	r := x.victim(2)
	if r != 0 {
		x.evictRun(r)
	}
	return r != 0
}

// victim returns a run with at least so many holders, 0 if there is none.
func (x *Index) victim(holders int) (best uint32) {
	var bestScore uint64
	epoch := x.epoch.Load()
	for seen, looked := 0, uint32(0); seen < evictSample && looked < x.runs.n; looked++ {
		x.hand++
		if x.hand >= x.runs.n {
			x.hand = 1
		}
		R := x.runs.at(x.hand)
		count := x.sets.count(R.set.Load())
		if _, n := R.bounds(); n == 0 || count < holders {
			continue
		}
		seen++
		age := uint64(epoch - R.stamp.Load())
		if score := (age + 1) << 16 / uint64(1+count); score > bestScore {
			best, bestScore = x.hand, score
		}
	}
	return best
}

// evictRun removes run r from all of its holders.
func (x *Index) evictRun(r uint32) {
	R := x.runs.at(r)
	base, n := R.bounds()
	for h := range x.sets.all(R.set.Load()) {
		x.unalias(h, base, n)
		x.account(h, -int64(n))
	}
	x.st.Evicted += int64(n)
	x.recolor(r, 0, n, 0)
}

// releaseSegment evicts the runs of the emptiest segment of the arena and releases
// it.
func (x *Index) releaseSegment() {
	best, free := uint32(0), -1
	for i := range x.blocks.n {
		if s := x.blocks.segs[i].Load(); s != &tombstone && s.free > free {
			best, free = i, s.free
		}
	}
	s := x.blocks.segs[best].Load()
	for g := uint32(0); g < segGran; g++ {
		for s.used[g/64]>>(g%64)&1 != 0 { // until the last run that touches the granule is evicted
			x.evictRun(s.run[g])
		}
	}
	x.blocks.release(best)
	x.st.Released++
}
