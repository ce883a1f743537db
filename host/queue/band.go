package queue

import "slices"

// band holds the requests of one priority in a lane: tenants in a ring, each with its
// requests in the order of arrival. A request that has a turn keeps its position
// until it leaves.
type band struct {
	priority int
	ring     []*tenant // the tenant whose turn it is first; none is empty
	begun    bool      // the first one has this round's quantum
}

type tenant struct {
	name    string
	deficit int // tokens that it may still compute; below 0, it computed out of turn
	waiters []*Waiter
}

// first returns the first waiter of t that may have the turn of r: one without a
// turn that has not tried in r. nil = none.
func (t *tenant) first(r *round) *Waiter {
	for _, w := range t.waiters {
		if !w.has && w.round != r {
			return w
		}
	}
	return nil
}

// put adds w behind the other requests of its tenant.
func (l *lane) put(w *Waiter) {
	falling := func(b *band, p int) int { return p - b.priority }
	i, ok := slices.BinarySearchFunc(l.bands, w.want.Priority, falling)
	if !ok {
		l.bands = slices.Insert(l.bands, i, &band{priority: w.want.Priority})
	}
	b := l.bands[i]
	at := slices.IndexFunc(b.ring, func(t *tenant) bool { return t.name == w.want.Tenant })
	if at < 0 {
		at = len(b.ring)
		b.ring = append(b.ring, &tenant{name: w.want.Tenant})
	}
	b.ring[at].waiters = append(b.ring[at].waiters, w)
}

// take removes w and, if it was placed, charges its tenant.
func (l *lane) take(w *Waiter, placed bool) {
	bi := slices.IndexFunc(l.bands, func(b *band) bool { return b.priority == w.want.Priority })
	b := l.bands[bi]
	ti := slices.IndexFunc(b.ring, func(t *tenant) bool { return t.name == w.want.Tenant })
	t := b.ring[ti]
	i := slices.Index(t.waiters, w)
	if t.waiters = slices.Delete(t.waiters, i, i+1); placed {
		t.deficit -= w.cost
	}
	if len(t.waiters) > 0 {
		return
	}
	// A tenant loses its deficit when none of its requests waits: else it would save
	// up turns while it is idle.
	if b.ring = slices.Delete(b.ring, ti, ti+1); ti == 0 {
		b.begun = false
	}
	if len(b.ring) == 0 {
		l.bands = slices.Delete(l.bands, bi, bi+1)
	}
}

// next returns the waiter that has the turn of r next, nil if all have had it.
func (l *lane) next(r *round) *Waiter {
	for _, b := range l.bands {
		w := b.fair(r)
		if r.began { // passed on: in the order of the ring, without a charge
			w = b.inOrder(r)
		}
		if w != nil {
			return w
		}
	}
	return nil
}

func (b *band) inOrder(r *round) *Waiter {
	for _, t := range b.ring {
		if w := t.first(r); w != nil {
			return w
		}
	}
	return nil
}

// fair returns the waiter whose turn it is by deficit round robin.
func (b *band) fair(r *round) *Waiter {
	if r.began || b.inOrder(r) == nil {
		return nil
	}
	for turns := 1; ; turns++ {
		t := b.ring[0]
		if !b.begun {
			t.deficit += quantum
			b.begun = true
		}
		if w := t.first(r); w != nil && w.cost <= t.deficit {
			return w
		}
		b.begun = false
		b.ring = append(slices.Delete(b.ring, 0, 1), t)
		if turns%len(b.ring) == 0 {
			b.skip(r)
		}
	}
}

// skip gives every tenant the quanta of the rounds in which no request would have its
// turn, so that long prompts need no long search.
func (b *band) skip(r *round) {
	rounds := -1
	for _, t := range b.ring {
		if w := t.first(r); w != nil {
			if n := (w.cost - t.deficit + quantum - 1) / quantum; rounds < 0 || n < rounds {
				rounds = n
			}
		}
	}
	for _, t := range b.ring {
		t.deficit += max(0, rounds-1) * quantum
	}
}
