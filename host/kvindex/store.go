package kvindex

import "fmt"

// Store records that holder holds the blocks named engine[i] by the engine and
// own[i] by us, which follow each other and follow the block the engine calls
// parent (hasParent false: they start a chain). engine and own have one length;
// neither is kept. Blocks that the holder holds already are not counted twice;
// if the engine has another name for one now, that name counts.
//
// own must be chained: own[i] depends on all blocks before it, and own[0] on
// what [Index.Own] returns for parent. Equal own hashes mean equal prompts.
//
// It returns [ErrOrphan] if the holder's endpoint does not hold the parent.
func (x *Index) Store(holder int, parent uint64, hasParent bool, engine, own []uint64) error {
	if x.named && len(engine) != len(own) {
		panic(fmt.Sprintf("BUG: kvindex: %d engine hashes, %d own", len(engine), len(own)))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.makeRoom(len(own))
	var at cursor
	if hasParent {
		id, ok := x.parent(holder, parent)
		if !ok {
			x.st.Orphans += int64(len(own))
			return ErrOrphan
		}
		at = x.after(id)
		x.runs.at(at.run).touch(x.epoch.Load()) // a child is a use
	}
	for len(own) > 0 {
		var n int // blocks handled
		if n, at = x.storeKnown(holder, at, engine, own); n == 0 {
			if n, at = x.storeAppend(holder, at, engine, own); n == 0 {
				n, at = x.storeRun(holder, at, engine, own)
			}
		}
		engine, own = rest(engine, n), own[n:]
		x.credit = min(x.credit+int64(n), maxCredit)
	}
	x.spend()
	return nil
}

// rest is engine[n:], for the nil slice of an index without names too.
func rest(engine []uint64, n int) []uint64 {
	if engine == nil {
		return nil
	}
	return engine[n:]
}

// storeKnown gives holder h those leading blocks of own that are in the index
// already, as far as they are in one run. It returns 0 if the first one is not.
func (x *Index) storeKnown(h int, at cursor, engine, own []uint64) (n int, next cursor) {
	r, off := x.known(at, own[0])
	if r == 0 {
		return 0, at
	}
	R := x.runs.at(r)
	R.touch(x.epoch.Load())
	base, live := R.bounds()
	m := x.common(base+off, live-off, own)
	k := m
	if x.named {
		k = x.nameAll(h, base+off, engine[:m])
	}
	if k > 0 {
		x.cover(h, r, off, off+k)
	}
	if k < m { // no memory for the next name: go on behind it, as after a hole
		x.st.Unnamed++
		return int(k) + 1, x.after(base + off + k)
	}
	return int(k), x.after(base + off + k - 1)
}

// known finds block own, which would follow the cursor: in the cursor's run, or
// at the head of another.
func (x *Index) known(at cursor, own uint64) (r, off uint32) {
	if at.run != 0 {
		base, n := x.runs.at(at.run).bounds()
		if at.off < n && x.blocks.own(base+at.off).Load() == own {
			return at.run, at.off
		}
	}
	return x.heads.find(x, own), 0
}

// storeAppend lets the cursor's run grow in place by leading blocks of own, if
// it ends at the cursor, is held by h alone and has room behind it. It returns
// 0 if not.
func (x *Index) storeAppend(h int, at cursor, engine, own []uint64) (n int, next cursor) {
	if at.run == 0 {
		return 0, at
	}
	R := x.runs.at(at.run)
	base, live := R.bounds()
	if at.off != live || R.next != 0 || R.set.Load() != single(h) {
		return 0, at
	}
	end := base + live
	if R.lim == end {
		want := uint32(len(own)) + x.growth(h, at, 0)
		R.lim += granule * x.blocks.extend(end, up(want)/granule, at.run)
	}
	if R.lim == end {
		return 0, at
	}
	if R.res == roomQueued {
		R.res = roomUsed
	}
	R.touch(x.epoch.Load())
	k, full := x.write(h, end, R.lim-end, engine, own)
	if k == 0 {
		return x.skip(full)
	}
	R.lock()
	R.setSpan(base, live+k)
	R.unlock()
	x.reserve(at.run)
	x.account(h, int64(k))
	x.st.Appends += int64(k)
	return int(k), cursor{at.run, live + k}
}

// storeRun starts a run of h alone with leading blocks of own, the first of
// which is not in the index.
func (x *Index) storeRun(h int, at cursor, engine, own []uint64) (n int, next cursor) {
	want := uint32(len(own))
	room := x.growth(h, at, want)
	r := x.runs.take()
	lo, got := x.blocks.alloc(want+room, r, x.mayGrow(), false)
	for got == 0 { // the arena is full
		x.evict()
		lo, got = x.blocks.alloc(want, r, x.mayGrow(), false)
	}
	k, full := x.write(h, lo, got, engine, own)
	if k == 0 {
		x.blocks.free(lo, lo+got)
		x.runs.give(r)
		return x.skip(full)
	}
	x.create(r, lo, k, lo+got, single(h), x.epoch.Load())
	x.heads.insert(own[0], r)
	x.account(h, int64(k))
	if k < want || room == 0 {
		x.trim(x.runs.at(r))
	} else {
		x.reserve(r)
	}
	return int(k), cursor{r, k}
}

// skip leaves out a block that could not be written; what follows it is stored as
// after a gap.
func (x *Index) skip(full bool) (n int, next cursor) {
	if !full {
		panic("BUG: kvindex: nothing written")
	}
	x.st.Unnamed++
	return 1, cursor{}
}

// write puts leading blocks of own, which h will hold, at the free positions
// [id, id+room), names them and returns how many. It stops before a block that
// is in the index already (what follows a hole that is being filled: always the
// head of a run), and with full set before one that cannot be named.
func (x *Index) write(h int, id, room uint32, engine, own []uint64) (k uint32, full bool) {
	n := min(room, uint32(len(own)))
	for j := uint32(1); j < n; j++ {
		if x.heads.find(x, own[j]) != 0 {
			n = j
			break
		}
	}
	s, o := x.blocks.seg(id)
	for j := range n {
		s.own[o+j].Store(own[j])
	}
	if x.named {
		k, full = x.nameNew(h, id, engine[:n])
		n = k
	}
	x.st.Blocks += int64(n)
	return n, full
}

// cover makes holder h hold blocks [a, b) of run r.
func (x *Index) cover(h int, r, a, b uint32) {
	set := x.runs.at(r).set.Load()
	ns := x.sets.with(set, h)
	if ns == set {
		return
	}
	x.account(h, int64(b-a))
	x.sets.retain(ns)
	x.recolor(r, a, b, ns)
	x.sets.release(ns)
}
