package kvindex

// Engines name blocks by hashes that are opaque here. Nearly always all
// endpoints use one name for one content, so one table without holders (names)
// serves all of them: a block has one canonical name, the one its first holder
// used. That table alone would be wrong where
//
//   - engines disagree (a random hash seed in every process): a holder calls a
//     block by a name that is not its canonical one;
//   - one name means two contents (engines that leave the salt or the
//     adapter out of their hash, or an endpoint that forges names): the name is
//     canonical for the first content only.
//
// Such pairs are named in the alias table, per holder. What holder h calls a
// block b that it holds is therefore
//
//	the alias (h, b), if there is one; else the canonical name of b,
//
// and an event of h is resolved among these names alone, so it cannot touch
// what others hold. A name can mean several blocks of a holder; a removal removes
// all of them, and as a parent it means the one that was named last.
//
// A block is aliased if it has aliases or if its canonical name belongs to another
// block. One bit per block (tags.aliased) keeps all of this off the common path.
// Writers only.

// warmBlocks is how many names are looked up ahead: more than the cache misses that
// a core has in progress, and few enough to stay in its first-level cache.
const warmBlocks = 16

// block returns the block that holder h calls engine, the latest if several.
func (x *Index) block(h int, engine uint64) (id uint32, ok bool) {
	hasAliases := x.aliases.has(h)
	if hasAliases {
		if id, ok = x.aliases.byName(h, engine); ok {
			return id, true
		}
	}
	if id, ok = x.names.find(engine); !ok || !x.holds(h, id) {
		return 0, false
	}
	if hasAliases && x.blocks.isAliased(id) {
		if _, other := x.aliases.byBlock(h, id); other {
			return 0, false
		}
	}
	return id, true
}

// parent is block for any tier of the holder's endpoint, its own first: a block
// that is offloaded may follow one that is in GPU memory only.
func (x *Index) parent(h int, engine uint64) (id uint32, ok bool) {
	if id, ok = x.block(h, engine); ok {
		return id, true
	}
	first := h - h%Tiers
	for t := first; t < min(first+Tiers, len(x.held)); t++ {
		if t == h || x.held[t] == 0 {
			continue
		}
		if id, ok = x.block(t, engine); ok {
			return id, true
		}
	}
	return 0, false
}

// nameAll makes engine[j] what h calls block id+j, and returns for how many
// blocks that could be done: fewer than all if the alias table is full.
func (x *Index) nameAll(h int, id uint32, engine []uint64) uint32 {
	t, o := x.blocks.tag(id)
	eng := t.eng[o : o+uint32(len(engine))]
	hasAliases := x.aliases.has(h)
	for j, e := range engine {
		if eng[j] == e && !hasAliases && !t.isAliased(o+uint32(j)) {
			continue
		}
		if !x.name(h, id+uint32(j), e) {
			return uint32(j)
		}
		hasAliases = x.aliases.has(h)
	}
	return uint32(len(engine))
}

// name makes engine what h calls block id. It returns false, with nothing
// changed, if that needs an alias and there is no memory for it.
func (x *Index) name(h int, id uint32, engine uint64) bool {
	canonical := x.blocks.engine(id) == engine
	if canonical && x.blocks.isAliased(id) {
		named, ok := x.names.find(engine)
		canonical = ok && named == id
	}
	if canonical && x.aliases.has(h) {
		// Another block of h with this name must not count as named later.
		if _, shared := x.aliases.byName(h, engine); shared {
			canonical = false
		}
	}
	if !canonical {
		if !x.aliases.put(h, engine, id, x.tablesLeft()) {
			return false
		}
		x.blocks.setAliased(id)
		return true
	}
	if x.aliases.has(h) && x.blocks.isAliased(id) {
		x.aliases.drop(h, id)
	}
	return true
}

// nameNew names the blocks at positions id+j, which have no holder yet and will
// have h: canonically where the name is free. It returns how many could be named,
// and full if that is not all.
func (x *Index) nameNew(h int, id uint32, engine []uint64) (k uint32, full bool) {
	t, o := x.blocks.tag(id)
	hasAliases := x.aliases.has(h)
	for j, e := range engine {
		if j%warmBlocks == 0 {
			x.names.warm(engine[j:min(j+warmBlocks, len(engine))])
		}
		b := o + uint32(j)
		t.clearAliased(b)
		t.eng[b] = e
		_, taken := x.names.insert(e, id+uint32(j))
		if !taken && !hasAliases {
			continue
		}
		if taken {
			x.st.Conflicts++
			t.setAliased(b)
		}
		if !x.name(h, id+uint32(j), e) {
			x.names.remove(e, id+uint32(j))
			return uint32(j), true
		}
		hasAliases = true
	}
	return uint32(len(engine)), false
}

// unname drops the canonical names of n blocks from id on, which have no holder any
// longer.
func (x *Index) unname(id, n uint32) {
	x.st.Blocks -= int64(n)
	if !x.named {
		return
	}
	t, o := x.blocks.tag(id)
	for j := range n {
		if j%warmBlocks == 0 {
			x.names.warm(t.eng[o+j : o+min(j+warmBlocks, n)])
		}
		x.names.remove(t.eng[o+j], id+j)
	}
}

// unalias drops what aliases holder h has for n blocks from id on.
func (x *Index) unalias(h int, id, n uint32) {
	if !x.named || !x.aliases.has(h) {
		return
	}
	t, o := x.blocks.tag(id)
	for b := o; b < o+n; b++ {
		if t.isAliased(b) {
			x.aliases.drop(h, id+b-o)
		}
	}
}

// rename moves the names of n blocks from id on to the positions from `to` on.
// set are the holders.
func (x *Index) rename(id, to, n, set uint32) {
	t, o := x.blocks.tag(id)
	u, p := x.blocks.tag(to)
	copy(u.eng[p:p+n], t.eng[o:o+n])
	for j := range n {
		if j%warmBlocks == 0 {
			x.names.warm(t.eng[o+j : o+min(j+warmBlocks, n)])
		}
		x.names.move(t.eng[o+j], id+j, to+j)
		if !t.isAliased(o + j) {
			u.clearAliased(p + j)
			continue
		}
		u.setAliased(p + j)
		for h := range x.sets.all(set) {
			x.aliases.move(h, id+j, to+j)
		}
	}
}

// tablesLeft is how many bytes names and aliases may still take. Unlike the
// arena they may take the share of the budget that is kept for tables that grow.
func (x *Index) tablesLeft() int64 {
	if x.budget < 0 {
		return 1 << 62
	}
	return x.budget - x.budget/64 - x.bytes()
}
