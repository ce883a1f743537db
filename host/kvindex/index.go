package kvindex

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// ErrOrphan is returned by [Index.Store] when the holder's endpoint does not
// hold the parent block: its own hash, and so those of its children, cannot be
// placed. Nothing was stored.
var ErrOrphan = errors.New("kvindex: unknown parent")

// Tiers is the number of memory tiers an endpoint can have: 0 is GPU memory, 1
// the host's memory, 2 its disk, 3 a remote store.
const Tiers = 4

// MaxHolders bounds Config.Holders: 2,048 endpoints of four tiers.
const MaxHolders = 2048 * Tiers

// HolderOf returns the holder number of memory tier `tier`, in [0, Tiers), of
// endpoint slot `id`. The tiers of an endpoint are neighbours, so an index of n
// endpoints has n×Tiers holders.
func HolderOf(id, tier int) int { return id*Tiers + tier }

// EndpointOf is the inverse of [HolderOf].
func EndpointOf(holder int) (id, tier int) { return holder / Tiers, holder % Tiers }

// DefaultBudgetBytes is enough for about 10 M (block, holder) pairs at 1.5
// holders a block: the holdings of 64 endpoints with 160,000 blocks each. The
// name table, a fifth of the budget, is allocated at once; a budget ten times
// as large would cost small routers 0.5 GB for nothing, a smaller one evicts on
// fleets that are common.
const DefaultBudgetBytes = 224 << 20

// minBudgetBytes leaves room for the tables and three segments of the arena.
const minBudgetBytes = 4 << 20

// Config sizes an [Index]. The zero value of BudgetBytes means its default.
type Config struct {
	// Holders bounds the holder numbers, in [1, MaxHolders].
	Holders int
	// BudgetBytes is the hard limit of everything the index allocates after
	// [New]; below 4 MiB it is taken as 4 MiB. 0 means DefaultBudgetBytes;
	// negative means no limit and a name table that grows, which makes filling
	// several times slower: for tests.
	BudgetBytes int64
}

func (c Config) withDefaults() Config {
	if c.BudgetBytes == 0 {
		c.BudgetBytes = DefaultBudgetBytes
	}
	if c.BudgetBytes > 0 {
		c.BudgetBytes = max(c.BudgetBytes, minBudgetBytes)
	}
	return c
}

// Validate reports whether the configuration can be used.
func (c Config) Validate() error {
	if c.Holders < 1 || c.Holders > MaxHolders {
		return fmt.Errorf("kvindex: %d holders, want 1 to %d", c.Holders, MaxHolders)
	}
	return nil
}

// bytesPerBlock is what a distinct block takes when the budget is used up, all
// tables together; it sizes the name table of an index with a budget, which
// together with the arena fills it (16.3 bytes in the arena, 6.3 in the table,
// a twentieth of the budget for the other tables).
const bytesPerBlock = 25

// Index is the index of what endpoints report. See the package documentation
// for its structure and for who may call what.
type Index struct {
	mu     sync.Mutex // guards all that readers do not read
	budget int64      // bytes; negative: unbounded. Immutable
	named  bool       // blocks have engine names. Immutable; false in a Predictor
	epoch  atomic.Uint32

	blocks  arena
	names   names
	aliases aliases
	heads   heads
	sets    sets
	runs    runs

	held []int64 // [holders] blocks each holds

	hand   uint32 // eviction clock
	rooms  rooms
	walk   walk       // mailbox: readers leave a long walk, the writer empties it
	job    compaction // the compaction in progress
	credit int64      // blocks that Stores have paid for to be compacted

	retries atomic.Int64
	st      Stats
}

// New returns an empty index. It panics if cfg does not validate.
func New(cfg Config) *Index { return newIndex(cfg, true) }

func newIndex(cfg Config, named bool) *Index {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		panic("BUG: " + err.Error())
	}
	x := &Index{budget: cfg.BudgetBytes, named: named, held: make([]int64, cfg.Holders)}
	x.runs.init()
	x.blocks.named = named
	x.sets.init(cfg.Holders)
	x.heads.init()
	if named {
		x.names.init(&x.blocks, max(cfg.BudgetBytes, 0)/bytesPerBlock, rand.Uint64())
		x.names.left = math.MaxInt64
		x.aliases.init(cfg.Holders, rand.Uint64())
	}
	return x
}

// Words is the length of a bit set of holders, ⌈Holders/64⌉.
func (x *Index) Words() int { return x.sets.words }

// Holders is the bound of the holder numbers.
func (x *Index) Holders() int { return len(x.held) }

// Tick starts a new epoch of the eviction clock. What is used within one epoch
// counts as used at the same time; a few epochs per turnover of the caches are
// enough, for instance one a second.
func (x *Index) Tick() { x.epoch.Add(1) }

// Own returns the own hash of the block that the holder's endpoint calls
// engine, for hashing its children; ok is false if the endpoint holds no such
// block. If it uses the name for several contents, the latest counts.
func (x *Index) Own(holder int, engine uint64) (own uint64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	id, ok := x.parent(holder, engine)
	if !ok {
		return 0, false
	}
	return x.blocks.own(id).Load(), true
}

// Holds reports whether the holder holds a block that its endpoint calls engine.
func (x *Index) Holds(holder int, engine uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.block(holder, engine)
	return ok
}

// Empty reports whether nothing was ever stored.
func (x *Index) Empty() bool { return x.blocks.segs[0].Load() == nil }

// Held returns how many blocks the holder holds.
func (x *Index) Held(holder int) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.held[holder]
}

// holds reports whether holder h holds block id.
func (x *Index) holds(h int, id uint32) bool {
	return x.sets.has(x.runs.at(x.owner(id)).set.Load(), h)
}

// account adds n pairs of holder h, which may be negative.
func (x *Index) account(h int, n int64) {
	x.held[h] += n
	x.st.Pairs += n
}
