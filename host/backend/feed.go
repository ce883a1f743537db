package backend

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvevents"
)

// tiers is the number of memory tiers in events: GPU, host, disk.
const tiers = 3

// tierOf maps where blocks lie to the index's tiers. Blocks in a store that is
// shared between engines are not the endpoint's and are not indexed.
func tierOf(m kvevents.Medium) (tier int, ok bool) {
	switch m {
	case kvevents.GPU:
		return 0, true
	case kvevents.Host:
		return 1, true
	case kvevents.Disk:
		return 2, true
	}
	return 0, false
}

// FeedStats counts what a Feed has done. Counters only grow, but Parked* and
// BlockTokens are of now.
type FeedStats struct {
	Batches, Failed        uint64 // messages, and events in them that could not be decoded
	StoredBlocks           uint64
	RemovedBlocks          uint64
	DuplicateBlocks        uint64 // stored again while held
	Clears                 uint64
	Orphans                uint64 // stored events that came before their parent
	Adopted                uint64 // of them, stored once it came
	Dropped                uint64 // of them, dropped
	Parked, ParkedBytes    int    // of them, waiting
	OtherSize, OtherMedium uint64 // events left out
	Resets                 uint64
	LostMessages           uint64
	BlockTokens            int // block size of the events, 0 unknown
	Joined                 uint64
	Earlier                bool   // messages were lost since the last clear: the engine may hold blocks of theirs
	StoredAtLoss           uint64 // StoredBlocks when the last were lost
}

// Feed turns an engine's cache events into blocks under the router's own names
// and keeps the index of one endpoint by them. It is a [kvevents.Sink]; token
// ids are hashed as they come and kept nowhere, but for blocks that wait for
// their parent, which cannot be hashed without it.
//
// Sink methods come from one goroutine; Stats may be called from any.
type Feed struct {
	id       endpoint.ID
	index    Index
	holds    Holding // nil if the index is no Holding
	identity string
	history  History // may be nil
	trust    *Trust
	expect   func() int // block size that the engine's configuration reports, 0 unknown
	joined   func()     // called at the first batch and at Joined
	now      func() time.Time

	mu sync.Mutex // guards st
	st FeedStats

	// The rest belongs to the goroutine that feeds.
	block   int   // tokens per block that is indexed, 0 unknown
	used    uint8 // bit per tier that was stored into since the last clear
	seeds   map[string]uint64
	copies  map[copyKey]uint8 // further copies of blocks that are held more than once
	domains []uint64          // of engines whose hashes know no salt
	park    park
	own     []uint64
	engine  []uint64
	key     []byte
}

// copyKey is a block in a tier.
type copyKey struct {
	tier   uint8
	engine uint64
}

// maxCopies bounds the table of further copies. Above it a block counts as gone
// when its first copy goes: too little is promised then, never too much.
const maxCopies = 1 << 16

// maxSeeds bounds the memo of seeds; a namespace is some 60 bytes of salt.
const maxSeeds = 1 << 12

// maxDomains bounds the salts of one engine whose hashes do not contain them.
const maxDomains = 64

func newFeed(cfg *Config, index Index, trust *Trust, expect func() int, joined func()) *Feed {
	f := &Feed{id: cfg.ID, index: index, identity: cfg.CacheIdentity, history: cfg.History, trust: trust, expect: expect,
		joined: joined, now: time.Now,
		seeds: map[string]uint64{}, copies: map[copyKey]uint8{}}
	f.holds, _ = index.(Holding)
	f.park.init(cfg.ParkBytes)
	return f
}

// Stats returns a copy. Safe for concurrent use.
func (f *Feed) Stats() FeedStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.st
}

func (f *Feed) note(g func(*FeedStats)) {
	f.mu.Lock()
	g(&f.st)
	f.mu.Unlock()
}

// Joined implements kvevents.Sink.
func (f *Feed) Joined() {
	f.note(func(s *FeedStats) { s.Joined++ })
	f.joined()
}

// Lost implements kvevents.Sink.
func (f *Feed) Lost(from, to uint64) {
	f.note(func(s *FeedStats) {
		s.LostMessages += to - from
		s.Earlier, s.StoredAtLoss = true, s.StoredBlocks
	})
	f.trust.lost(f.now())
}

// Reset implements kvevents.Sink: no earlier block is held.
func (f *Feed) Reset(reason string) {
	f.clear()
	f.domains = f.domains[:0]
	f.block = 0
	f.note(func(s *FeedStats) { s.Resets++; s.BlockTokens = 0 })
	f.trust.reset(reason, f.now())
}

// clear removes all blocks of the endpoint.
func (f *Feed) clear() {
	for t := range tiers {
		f.index.RemoveHolder(holder(f.id, t))
	}
	clear(f.copies)
	f.used = 0
	f.note(func(s *FeedStats) { s.Earlier = false })
	f.drop(f.park.clear())
}

// drop counts n waiting events that were dropped.
func (f *Feed) drop(n int) {
	f.note(func(s *FeedStats) {
		s.Dropped += uint64(n)
		s.Parked, s.ParkedBytes = f.park.count, f.park.bytes
	})
	if n > 0 {
		f.trust.orphaned(n, f.now())
	}
}

// Batch implements kvevents.Sink.
func (f *Feed) Batch(b *kvevents.Batch) {
	var first bool
	f.note(func(s *FeedStats) {
		first = s.Batches == 0
		s.Batches++
		s.Failed += uint64(b.Failed)
	})
	if b.Failed > 0 {
		f.trust.failed(b.Failed, f.now())
	}
	for i := range b.Events {
		e := &b.Events[i]
		switch e.Kind {
		case kvevents.Stored:
			f.stored(e)
		case kvevents.Removed:
			f.removed(e)
		case kvevents.Cleared:
			f.clear()
			f.note(func(s *FeedStats) { s.Clears++ })
		}
	}
	if n := f.park.expire(f.now()); n > 0 {
		f.drop(n)
	}
	if first {
		f.joined()
	}
}

// stored stores one event's blocks, or parks them if their parent is unknown.
func (f *Feed) stored(e *kvevents.Event) {
	tier, ok := tierOf(e.Medium)
	if !ok {
		f.note(func(s *FeedStats) { s.OtherMedium++ })
		return
	}
	if !f.takesSize(e.BlockTokens) {
		f.note(func(s *FeedStats) { s.OtherSize++ })
		return
	}
	domain, ok := f.domain(e)
	if !ok {
		f.note(func(s *FeedStats) { s.OtherMedium++ })
		return
	}
	engine := f.keys(e.Hashes, domain)
	blocks := blockRun{tier: tier, engine: engine, tokens: e.Tokens, extra: e.Extra, block: e.BlockTokens,
		parent: e.Parent ^ domain, hasParent: e.HasParent}
	prev := uint64(0)
	if e.HasParent {
		if prev, ok = f.index.Own(holder(f.id, tier), blocks.parent); !ok {
			f.parkRun(&blocks)
			return
		}
	} else {
		prev = f.seed(e)
	}
	if f.put(&blocks, prev) {
		f.adopt(engine)
	}
}

// takesSize decides by its block size whether an event is indexed. Blocks of
// hybrid models can end inside a block (vLLM's partial entries); such events have
// sizes of their own. The first size is used until an event has the one that the
// engine's configuration reports.
func (f *Feed) takesSize(n int) bool {
	if n == f.block {
		return true
	}
	if n > blockhash.MaxBlockTokens || f.block != 0 && n != f.expect() {
		return false
	}
	f.block = n
	f.note(func(s *FeedStats) { s.BlockTokens = n })
	return true
}

// blockRun is consecutive blocks of one event.
type blockRun struct {
	tier      int
	engine    []uint64 // [blocks] keys in the index
	tokens    []uint32 // [blocks × block]
	extra     []uint64 // [blocks] or empty
	block     int
	parent    uint64
	hasParent bool
}

// put names the blocks, which follow the one named prev, and stores them. It
// reports false if the index has lost the parent, and then has parked them.
func (f *Feed) put(r *blockRun, prev uint64) bool {
	f.own = appendOwn(f.own[:0], prev, r)
	h := holder(f.id, r.tier)
	dup := f.countCopies(h, r)
	if err := f.index.Store(h, r.parent, r.hasParent, r.engine, f.own); err != nil {
		f.parkRun(r)
		return false
	}
	if f.history != nil {
		f.history.Stored(f.own)
	}
	f.note(func(s *FeedStats) {
		s.StoredBlocks += uint64(len(r.engine))
		s.DuplicateBlocks += uint64(dup)
	})
	return true
}

// appendOwn appends the router's names of a run's blocks. What a block's content
// depends on besides tokens, adapter and salt is mixed in after its tokens, so
// that it and all that follow match no chain of plain text.
func appendOwn(dst []uint64, prev uint64, r *blockRun) []uint64 {
	if len(r.extra) == 0 {
		dst, _ = blockhash.Append(dst, prev, r.tokens, r.block)
		return dst
	}
	for i, x := range r.extra {
		dst, _ = blockhash.Append(dst, prev, r.tokens[i*r.block:(i+1)*r.block], r.block)
		last := &dst[len(dst)-1]
		if x != 0 {
			*last = mix(*last, x)
		}
		prev = *last
	}
	return dst
}

func mix(a, b uint64) uint64 {
	var buf [16]byte
	binary.LittleEndian.PutUint64(buf[:], a)
	binary.LittleEndian.PutUint64(buf[8:], b)
	return xxhash.Sum64(buf[:])
}

// countCopies counts blocks that are stored while they are held: engines keep
// several copies of a block that concurrent requests have computed, and report
// of each that goes (vllm#55092).
func (f *Feed) countCopies(h int, r *blockRun) (n int) {
	f.used |= 1 << r.tier
	for _, e := range r.engine {
		if !f.held(h, r.tier, e) {
			continue
		}
		n++
		k := copyKey{uint8(r.tier), e}
		if c, ok := f.copies[k]; c < 255 && (ok || len(f.copies) < maxCopies) {
			f.copies[k] = c + 1
		}
	}
	return n
}

// held reports whether the tier holds a block. Own answers for all tiers of an
// endpoint, so that without a Holding it can only be used while there is one tier;
// with more, a block counts as gone with its first copy.
func (f *Feed) held(h, tier int, engine uint64) bool {
	if f.holds != nil {
		return f.holds.Holds(h, engine)
	}
	if f.used != 1<<tier {
		return false
	}
	_, ok := f.index.Own(h, engine)
	return ok
}

// removed takes blocks out, but for those of which the engine has another copy.
func (f *Feed) removed(e *kvevents.Event) {
	tier, ok := tierOf(e.Medium)
	if !ok {
		f.note(func(s *FeedStats) { s.OtherMedium++ })
		return
	}
	gone := f.engine[:0]
	domain := uint64(0)
	every := f.domains // a removal without a salt takes the block of every salt
	if e.SaltUnhashed {
		every = nil
		domain, _ = f.domain(e)
	}
	for i, h := range e.Hashes {
		if len(e.Copies) > i {
			delete(f.copies, copyKey{uint8(tier), h})
			if e.Copies[i] > 0 {
				continue
			}
		}
		if f.lastCopy(tier, h^domain) {
			gone = append(gone, h^domain)
		}
		for _, d := range every {
			if f.lastCopy(tier, h^d) {
				gone = append(gone, h^d)
			}
		}
	}
	f.engine = gone
	f.park.remove(tier, gone)
	f.index.Remove(holder(f.id, tier), gone)
	f.note(func(s *FeedStats) { s.RemovedBlocks += uint64(len(gone)) })
}

// lastCopy takes one copy of a block away and reports whether it was the last.
func (f *Feed) lastCopy(tier int, engine uint64) bool {
	if len(f.copies) == 0 {
		return true
	}
	k := copyKey{uint8(tier), engine}
	switch c := f.copies[k]; c {
	case 0:
		return true
	case 1:
		delete(f.copies, k)
	default:
		f.copies[k] = c - 1
	}
	return false
}

// seed returns the start of the chain of an event's first block.
func (f *Feed) seed(e *kvevents.Event) uint64 {
	f.key = f.key[:0]
	if e.AdapterIsID { // a number is no name: such chains must match nothing
		f.key = append(f.key, 0)
	}
	f.key = append(f.key, e.Adapter...)
	adapter := len(f.key)
	f.key = append(f.key, 0xff)
	f.key = append(f.key, e.Salt...)
	if s, ok := f.seeds[string(f.key)]; ok {
		return s
	}
	s := blockhash.Seed(f.identity, string(f.key[:adapter]), string(e.Salt))
	if len(f.seeds) >= maxSeeds {
		clear(f.seeds)
	}
	f.seeds[string(f.key)] = s
	return s
}

// domain distinguishes blocks of different salts for an engine whose hashes do
// not: a number that is XORed to its hashes; 0 for all others.
func (f *Feed) domain(e *kvevents.Event) (uint64, bool) {
	if !e.SaltUnhashed || len(e.Salt) == 0 && len(e.Adapter) == 0 {
		return 0, true
	}
	d := mix(xxhash.Sum64(e.Salt), xxhash.Sum64(e.Adapter)) | 1
	for _, have := range f.domains {
		if have == d {
			return d, true
		}
	}
	if len(f.domains) == maxDomains {
		return 0, false
	}
	f.domains = append(f.domains, d)
	return d, true
}

// keys returns the names of blocks in the index.
func (f *Feed) keys(hashes []uint64, domain uint64) []uint64 {
	if domain == 0 {
		return hashes
	}
	f.engine = f.engine[:0]
	for _, h := range hashes {
		f.engine = append(f.engine, h^domain)
	}
	return f.engine
}
