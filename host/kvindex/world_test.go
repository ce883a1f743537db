package kvindex

import (
	"errors"
	"fmt"
	"time"
)

// A world runs the same operations on an Index and on the reference model.
// pick(n) chooses in [0, n): a generator of random numbers or a fuzzer's bytes.
type world struct {
	x        *Index
	n        *naive
	pick     func(n int) int
	holders  int
	fan      int // different contents that can follow a block
	bounded  bool
	agree    bool  // all endpoints use the same names
	mode     []int // [holder] how its engine names blocks
	paths    []path
	at       map[uint64]place // own hash → where it is
	last     []int            // [holder] path it stored last
	depth    []uint32
	all      []uint64 // every holder
	exact    int      // answers that were as without a budget
	answered int
}

// path is a chain of blocks: own hashes, and the same without the salt.
type path struct{ own, plain []uint64 }

type place struct{ path, index int }

func newWorld(cfg Config, fan int, pick func(int) int) *world {
	w := &world{
		x: New(cfg), n: newNaive(cfg.Holders), pick: pick, holders: cfg.Holders, fan: fan,
		bounded: cfg.BudgetBytes >= 0, at: map[uint64]place{}, last: make([]int, cfg.Holders), mode: make([]int, cfg.Holders),
	}
	for h := range w.mode {
		w.mode[h], _ = EndpointOf(h)
	}
	w.depth = make([]uint32, cfg.Holders)
	w.all = make([]uint64, w.x.Words())
	for h := range cfg.Holders {
		w.all[h>>6] |= 1 << (h & 63)
	}
	return w
}

// names is what holder h calls blocks [a, b) of a path: two of four endpoints
// agree, one has a seed of its own, one ignores the salt.
func (w *world) names(h int, p path, a, b int) []uint64 {
	id := w.mode[h]
	if w.agree {
		id = 0
	}
	out := make([]uint64, 0, b-a)
	for i := a; i < b; i++ {
		switch id % 4 {
		case 2:
			out = append(out, engHash(p.own[i]+uint64(id)))
		case 3:
			out = append(out, engHash(p.plain[i]))
		default:
			out = append(out, engHash(p.own[i]))
		}
	}
	return out
}

// extend appends n blocks to a copy of p and enters the new ones into w.at. Few
// contents per step, so that paths share prefixes.
func (w *world) extend(p path, n int) path {
	p = path{append([]uint64(nil), p.own...), append([]uint64(nil), p.plain...)}
	salt := uint64(w.pick(3))
	for range n {
		own, plain := mixHash(7, salt), uint64(7)
		if k := len(p.own); k > 0 {
			own, plain = p.own[k-1], p.plain[k-1]
		}
		c := uint64(0)
		if w.pick(12) == 0 {
			c = uint64(w.pick(w.fan))
		}
		p.own = append(p.own, mixHash(own, c))
		p.plain = append(p.plain, mixHash(plain, c))
	}
	w.paths = append(w.paths, p)
	for i, o := range p.own {
		if _, ok := w.at[o]; !ok {
			w.at[o] = place{len(w.paths) - 1, i}
		}
	}
	return p
}

func (w *world) path() path { return w.paths[w.pick(len(w.paths))] }

// store lets h store blocks, from the start or behind a block of a path.
func (w *world) store(h int) error {
	if len(w.paths) == 0 || w.pick(5) == 0 {
		p := w.extend(path{}, 1+w.pick(60))
		return w.put(h, 0, false, p, 0)
	}
	i := w.last[h]
	if w.pick(4) == 0 {
		i = w.pick(len(w.paths))
	}
	p := w.paths[i]
	k := len(p.own)
	if w.pick(2) == 0 {
		k = 1 + w.pick(k)
	}
	parent := w.names(h, p, k-1, k)[0]
	own, ok := w.x.Own(h, parent)
	want, known := w.n.Own(h, parent)
	if ok && !known || !w.bounded && (ok != known || own != want) {
		return fmt.Errorf("holder %d: Own(%x) = %x %v, want %x %v", h, parent, own, ok, want, known)
	}
	if !ok {
		err := w.x.Store(h, parent, true, []uint64{1}, []uint64{1})
		if !errors.Is(err, ErrOrphan) {
			return fmt.Errorf("store behind an unknown parent: %v", err)
		}
		return nil
	}
	at := w.at[own]
	p = w.paths[at.path]
	p = path{p.own[:at.index+1], p.plain[:at.index+1]}
	if len(p.own) > 400 {
		return nil
	}
	q := w.extend(p, 1+w.pick(60))
	return w.put(h, parent, true, q, len(p.own))
}

// put stores blocks from `from` on of path p, which is the last one.
func (w *world) put(h int, parent uint64, has bool, p path, from int) error {
	w.last[h] = len(w.paths) - 1
	names := w.names(h, p, from, len(p.own))
	if err := w.x.Store(h, parent, has, names, p.own[from:]); err != nil {
		if w.bounded && errors.Is(err, ErrOrphan) { // it was evicted to make room
			return nil
		}
		return err
	}
	if !has {
		w.n.Store(h, 0, false, names, p.own[from:])
	} else if !w.n.Store(h, parent, true, names, p.own[from:]) {
		return fmt.Errorf("stored behind a parent that is unknown")
	}
	return nil
}

// evict removes blocks from the end of a path.
func (w *world) evict(h int) {
	p := w.path()
	from := w.pick(len(p.own))
	e := reversed(w.names(h, p, from, len(p.own)))
	w.remove(h, e[:1+w.pick(len(e))])
}

// hole removes blocks anywhere.
func (w *world) hole(h int) {
	p := w.path()
	a := w.pick(len(p.own))
	e := w.names(h, p, a, a+1+w.pick(min(len(p.own)-a, 12)))
	for i := len(e) - 1; i > 0 && w.pick(2) == 0; i-- {
		j := w.pick(i + 1)
		e[i], e[j] = e[j], e[i]
	}
	w.remove(h, e)
}

func (w *world) remove(h int, e []uint64) {
	w.x.Remove(h, e)
	w.n.Remove(h, e)
}

// match compares the depths of all holders.
func (w *world) match() error {
	p := w.path()
	q := append(append([]uint64(nil), p.own[:1+w.pick(len(p.own))]...), 99)
	w.x.Match(q, w.all, w.depth)
	for h, got := range w.depth {
		if err := w.compare(h, got, w.n.Depth(h, q)); err != nil {
			return err
		}
	}
	w.x.MatchTiers(q, w.all, w.depth)
	for h, got := range w.depth {
		if err := w.compare(h, got, w.n.DepthTiers(h, q)); err != nil {
			return fmt.Errorf("tiers: %w", err)
		}
	}
	return nil
}

func (w *world) compare(h int, got, want uint32) error {
	w.answered++
	if got == want {
		w.exact++
		return nil
	}
	if got > want || !w.bounded {
		return fmt.Errorf("holder %d: depth %d, want %d", h, got, want)
	}
	return nil
}

// step does one operation.
func (w *world) step() error {
	h := w.pick(w.holders)
	switch k := w.pick(20); {
	case k < 9 || len(w.paths) == 0:
		return w.store(h)
	case k < 12:
		w.evict(h)
	case k < 15:
		w.hole(h)
	case k == 15 && w.pick(40) == 0:
		w.x.RemoveHolder(h)
		w.n.RemoveHolder(h)
	case k == 16:
		w.x.Maintain(time.Duration(w.pick(2)) * time.Millisecond)
	case k == 17:
		w.x.Tick()
		if w.pick(20) == 0 { // its engine names blocks otherwise now
			w.mode[h] = w.pick(8)
		}
	default:
		return w.match()
	}
	return nil
}

// verify compares what can be counted.
func (w *world) verify() error {
	if err := check(w.x); err != nil {
		return err
	}
	s := w.x.Stats()
	blocks, pairs := w.n.Blocks()
	if w.bounded && s.Bytes > w.x.budget {
		return fmt.Errorf("%d bytes, budget %d", s.Bytes, w.x.budget)
	}
	if s.Blocks > blocks || s.Pairs > pairs || !w.bounded && (s.Blocks < blocks || s.Pairs < pairs) {
		return fmt.Errorf("%d blocks, %d pairs, want %d, %d", s.Blocks, s.Pairs, blocks, pairs)
	}
	return nil
}

// clear removes every holder and checks that nothing is left.
func (w *world) clear() error {
	for h := range w.holders {
		w.x.RemoveHolder(h)
	}
	x := w.x
	if err := check(x); err != nil {
		return err
	}
	if x.st.Blocks != 0 || len(x.sets.ids) != 0 || x.blocks.freeG != x.blocks.granules() || x.aliases.bytes != 0 {
		return fmt.Errorf("not empty: %d blocks, %d sets, %d granules, %d bytes of aliases",
			x.st.Blocks, len(x.sets.ids), x.blocks.granules()-x.blocks.freeG, x.aliases.bytes)
	}
	return nil
}
