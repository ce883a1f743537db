package chat

// Epochs order uses by time: a new epoch begins whenever a 32nd of the budget has
// been added to the memos. Entries carry the epoch of their last use.
const epochsPerBudget = 32

// lowWater is the part of the budget, in 16ths, that remains after an eviction.
const lowWater = 15

// sweepEntries limits the entries that a sweep examines while it holds a memo's
// lock: about 0.1 ms.
const sweepEntries = 1024

// grow counts n added bytes.
func (m *Model) grow(n int64) {
	m.bytes.Add(n)
	if m.added.Add(n) > m.cfg.BudgetBytes/epochsPerBudget {
		m.added.Store(0)
		m.epoch.Add(1)
	}
}

// trim evicts until the memos are within their budget. One request at a time
// evicts; the others continue.
func (m *Model) trim() {
	if m.bytes.Load() <= m.cfg.BudgetBytes || !m.evicting.TryLock() {
		return
	}
	defer m.evicting.Unlock()
	for m.bytes.Load() > m.cfg.BudgetBytes/16*lowWater {
		o := m.victim()
		if o == nil {
			return
		}
		m.shrink(o)
	}
}

// victim returns the memo with the greatest product of bytes and epochs of idleness:
// a namespace that floods the memos loses its own entries first, and an idle one
// does not keep its entries forever.
func (m *Model) victim() *memo {
	now := m.epoch.Load()
	m.mu.RLock()
	defer m.mu.RUnlock()
	var worst *memo
	var most int64
	for _, o := range m.memos {
		if score := o.bytes.Load() * int64(1+now-o.stamp.Load()); score > most {
			worst, most = o, score
		}
	}
	return worst
}

// shrink frees at least an eighth of o, oldest entries first, or all of it.
func (m *Model) shrink(o *memo) {
	want := max(o.bytes.Load()/8, m.cfg.BudgetBytes/64)
	for _, age := range [...]uint32{16, 4, 2, 1, 0, 0} {
		if want -= m.sweep(o, want, age); want <= 0 {
			return
		}
	}
	m.drop(o)
}

// sweep goes once around the ring, from the youngest entry to the oldest so that a
// conversation is evicted from its end, and evicts entries that were not used for
// age epochs. It returns the bytes freed.
func (m *Model) sweep(o *memo, want int64, age uint32) (freed int64) {
	for done := 0; freed < want; done += sweepEntries {
		o.mu.Lock()
		o.ring.compact()
		if done >= len(o.ring.entries) {
			o.mu.Unlock()
			return freed
		}
		freed += m.sweepLocked(o, want-freed, age)
		o.mu.Unlock()
	}
	return freed
}

func (m *Model) sweepLocked(o *memo, want int64, age uint32) (freed int64) {
	now := m.epoch.Load()
	r := &o.ring
	for range sweepEntries {
		if freed >= want {
			break
		}
		if r.hand--; r.hand < 0 || r.hand >= len(r.entries) {
			r.hand = len(r.entries) - 1
		}
		if r.hand < 0 {
			break
		}
		n := int64(0)
		switch e := r.entries[r.hand]; {
		case e.v != nil && now-e.v.stamp.Load() >= age:
			n = o.forget(e.v)
		case e.n != nil && (e.t.gone || e.n.kids == 0 && now-e.n.stamp.Load() >= age):
			n = o.prune(e.t, e.n)
		default:
			continue
		}
		r.remove(r.hand)
		freed += n
		m.counters.evictions.Add(1)
	}
	o.bytes.Add(-freed)
	m.bytes.Add(-freed)
	return freed
}

// forget evicts a value; o.mu is held.
func (o *memo) forget(v *value) int64 {
	n := v.charged.Swap(evicted)
	v.body.Store(nil)
	if o.values[v.hash] == v {
		delete(o.values, v.hash)
	}
	return n
}

// prune evicts a node without children, or any node of a tree that was
// replaced; o.mu is held.
func (o *memo) prune(t *tree, x *node) int64 {
	delete(t.nodes, x.key())
	x.gone = true
	x.up.kids--
	x.up.next.CompareAndSwap(x, nil)
	return x.bytes()
}

// drop removes a whole memo. Requests that hold it continue and store nothing in it.
func (m *Model) drop(o *memo) {
	m.mu.Lock()
	if m.memos[o.key] == o {
		delete(m.memos, o.key)
	}
	m.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return
	}
	o.gone = true
	for _, e := range o.ring.entries {
		if e.v != nil {
			e.v.charged.Store(evicted)
			e.v.body.Store(nil)
		}
	}
	o.values, o.trees, o.ring = map[uint64]*value{}, [2]*tree{}, ring{}
	m.bytes.Add(-o.bytes.Swap(0))
}

// Drop removes all memos.
func (m *Model) Drop() {
	m.mu.RLock()
	all := make([]*memo, 0, len(m.memos))
	for _, o := range m.memos {
		all = append(all, o)
	}
	m.mu.RUnlock()
	for _, o := range all {
		m.drop(o)
	}
}
