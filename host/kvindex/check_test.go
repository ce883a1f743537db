package kvindex

import "fmt"

// check verifies the invariants of the structure.
func check(x *Index) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := checker{x: x, owned: map[uint32]uint32{}, own: map[uint64]bool{}, held: make([]int64, len(x.held))}
	for id := uint32(1); id < x.runs.n; id++ {
		if err := c.run(id); err != nil {
			return fmt.Errorf("run %d: %w", id, err)
		}
	}
	return c.totals()
}

type checker struct {
	x      *Index
	owned  map[uint32]uint32 // position → run
	own    map[uint64]bool
	held   []int64
	live   int
	blocks int64
	named  int64
	alias  int
}

func (c *checker) run(id uint32) error {
	x := c.x
	R := x.runs.at(id)
	base, n := R.bounds()
	set := R.set.Load()
	if R.ver.Load()&1 != 0 {
		return fmt.Errorf("locked")
	}
	if n == 0 {
		if set != 0 {
			return fmt.Errorf("free, with a set")
		}
		return nil
	}
	c.live++
	c.blocks += int64(n)
	for h := range x.sets.all(set) {
		c.held[h] += int64(n)
	}
	switch {
	case set == 0:
		return fmt.Errorf("no holders")
	case R.lo > base || base+n > R.lim:
		return fmt.Errorf("[%d,%d) not in [%d,%d)", base, base+n, R.lo, R.lim)
	case R.next != 0 && (x.runs.at(R.next).prev != id || x.runs.at(R.next).lo != R.lim):
		return fmt.Errorf("bad link")
	case x.heads.find(x, x.blocks.own(base).Load()) != id:
		return fmt.Errorf("head not found")
	}
	for p := R.lo; p < R.lim; p++ {
		if c.owned[p] != 0 {
			return fmt.Errorf("position %d owned twice", p)
		}
		c.owned[p] = id
		if got := x.owner(p); got != id {
			return fmt.Errorf("owner(%d) = %d", p, got)
		}
	}
	for p := base; p < base+n; p++ {
		if err := c.block(p, p == base, set); err != nil {
			return fmt.Errorf("block %d: %w", p, err)
		}
	}
	return nil
}

func (c *checker) block(p uint32, head bool, set uint32) error {
	x := c.x
	own := x.blocks.own(p).Load()
	if c.own[own] {
		return fmt.Errorf("own hash twice")
	}
	c.own[own] = true
	if !head && x.heads.find(x, own) != 0 {
		return fmt.Errorf("head inside a run")
	}
	if !x.named {
		return nil
	}
	got, ok := x.names.find(x.blocks.engine(p))
	switch {
	case !ok && !x.blocks.isAliased(p):
		return fmt.Errorf("no name")
	case ok && got != p && !x.blocks.isAliased(p):
		return fmt.Errorf("name of %d", got)
	case ok && got == p:
		c.named++
	}
	for h := range x.sets.all(set) {
		i, aliased := x.aliases.byBlock(h, p)
		if !aliased && (!ok || got != p) {
			return fmt.Errorf("holder %d has no name for it", h)
		}
		if aliased {
			c.alias++
			if a := x.aliases.at(i); !x.blocks.isAliased(p) || int(a.holder) != h {
				return fmt.Errorf("bad alias")
			}
		}
	}
	return nil
}

func (c *checker) totals() error {
	x := c.x
	heads, full := 0, 0
	for i := range x.heads.stripes {
		heads += x.heads.stripes[i].n
	}
	for i := range x.names.subs {
		full += x.names.subs[i].full
	}
	var pairs int64
	for h, n := range c.held {
		if x.held[h] != n {
			return fmt.Errorf("holder %d: %d blocks, counted %d", h, n, x.held[h])
		}
		pairs += n
	}
	if heads != c.live || int64(c.live) != x.st.Runs {
		return fmt.Errorf("%d runs, %d heads, counted %d", c.live, heads, x.st.Runs)
	}
	if int64(full) != c.named || c.blocks != x.st.Blocks || pairs != x.st.Pairs {
		return fmt.Errorf("%d names of %d, %d blocks (%d), %d pairs (%d)", full, c.named, c.blocks, x.st.Blocks, pairs,
			x.st.Pairs)
	}
	if c.alias != x.aliases.total {
		return fmt.Errorf("%d aliases, counted %d", c.alias, x.aliases.total)
	}
	used := int64(0)
	for p := range c.owned {
		if p%granule == 0 {
			used++
		}
	}
	if taken := x.blocks.granules() - x.blocks.freeG; taken < used || taken > used+int64(c.live) {
		return fmt.Errorf("%d granules taken, %d owned", taken, used)
	}
	return nil
}
