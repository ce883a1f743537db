package backend

import (
	"slices"
	"time"
)

// parkFor is how long blocks wait for their parent. If it comes (events of a lower
// tier, a batch that is replayed) it comes within one or two batches.
const parkFor = 30 * time.Second

// parked is a run of blocks whose parent is unknown. It owns its slices: this is
// the only place that keeps token ids after their event.
type parked struct {
	blockRun
	since time.Time
	gone  []uint64 // removed while it waited
	done  bool     // adopted or dropped; still in the queue
}

func (p *parked) size() int { return 160 + 12*len(p.engine) + 4*len(p.tokens) + 8*len(p.extra) }

// tierKey is a block of a tier by its engine's name.
type tierKey struct {
	tier   int
	engine uint64
}

// park keeps runs that wait for their parent, at most limit bytes; the oldest is
// dropped first. It belongs to its feed's goroutine.
type park struct {
	limit, bytes, count int
	queue               []*parked
	waiting             map[uint64][]*parked // by parent
	blocks              map[tierKey]*parked  // by each block's own name
}

func (p *park) init(limit int) {
	p.limit = limit
	p.waiting, p.blocks = map[uint64][]*parked{}, map[tierKey]*parked{}
}

// add parks a copy of r and returns how many runs were dropped for it, r itself
// included.
func (p *park) add(r *blockRun, now time.Time) (dropped int) {
	o := &parked{blockRun: *r, since: now}
	o.engine, o.tokens, o.extra = slices.Clone(r.engine), slices.Clone(r.tokens), slices.Clone(r.extra)
	if o.size() > p.limit {
		return 1
	}
	for p.bytes+o.size() > p.limit {
		dropped += p.popOldest()
	}
	p.queue = append(p.queue, o)
	p.bytes += o.size()
	p.count++
	p.waiting[r.parent] = append(p.waiting[r.parent], o)
	for _, e := range o.engine {
		p.blocks[tierKey{r.tier, e}] = o
	}
	return dropped
}

// popOldest takes the head of the queue out and returns 1 if it still waited.
func (p *park) popOldest() int {
	o := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	if o.done {
		return 0
	}
	p.unpark(o)
	rest := slices.DeleteFunc(p.waiting[o.parent], func(x *parked) bool { return x == o })
	if len(rest) == 0 {
		delete(p.waiting, o.parent)
	} else {
		p.waiting[o.parent] = rest
	}
	return 1
}

// unpark takes a run out of the counts and the table of blocks.
func (p *park) unpark(o *parked) {
	o.done = true
	p.bytes -= o.size()
	p.count--
	for _, e := range o.engine {
		if k := (tierKey{o.tier, e}); p.blocks[k] == o {
			delete(p.blocks, k)
		}
	}
}

// take returns the runs that wait for a parent, no longer parked.
func (p *park) take(parent uint64) []*parked {
	list := p.waiting[parent]
	if list == nil {
		return nil
	}
	delete(p.waiting, parent)
	for _, o := range list {
		p.unpark(o)
	}
	return list
}

// remove notes blocks that were removed while they waited.
func (p *park) remove(tier int, engine []uint64) {
	if p.count == 0 {
		return
	}
	for _, e := range engine {
		if o := p.blocks[tierKey{tier, e}]; o != nil && len(o.gone) < len(o.engine) {
			o.gone = append(o.gone, e)
		}
	}
}

// expire drops runs that have waited too long and returns how many.
func (p *park) expire(now time.Time) (dropped int) {
	for len(p.queue) > 0 && (p.queue[0].done || now.Sub(p.queue[0].since) > parkFor) {
		dropped += p.popOldest()
	}
	return dropped
}

// clear drops all runs and returns how many.
func (p *park) clear() (dropped int) {
	dropped = p.count
	p.bytes, p.count, p.queue = 0, 0, nil
	clear(p.waiting)
	clear(p.blocks)
	return dropped
}

// parkRun parks a run.
func (f *Feed) parkRun(r *blockRun) {
	n := f.park.add(r, f.now())
	f.note(func(s *FeedStats) { s.Orphans++ })
	f.drop(n)
}

// adopt stores the runs that waited for any of the blocks just stored, and those
// that waited for theirs.
func (f *Feed) adopt(engine []uint64) {
	if f.park.count == 0 {
		return
	}
	todo := slices.Clone(engine)
	for len(todo) > 0 && f.park.count > 0 {
		parent := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, o := range f.park.take(parent) {
			own, ok := f.index.Own(holder(f.id, o.tier), parent)
			if !ok {
				f.drop(1)
				continue
			}
			if !f.put(&o.blockRun, own) {
				continue // parked again
			}
			f.note(func(s *FeedStats) { s.Adopted++ })
			if len(o.gone) > 0 {
				f.index.Remove(holder(f.id, o.tier), o.gone)
			}
			todo = append(todo, o.engine...)
		}
	}
	f.drop(0)
}
