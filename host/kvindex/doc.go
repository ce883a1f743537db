// Package kvindex knows which endpoint holds which KV cache blocks, so that a
// request can go where most of its prompt is cached already.
//
// # Names
//
// A block is named by its chained hash ("own" hash, package blockhash): equal
// hash means equal prompt up to and including the block. Engines name blocks by
// hashes of their own ("engine" hash), which are opaque here. A holder is one
// memory tier of one endpoint, see [HolderOf].
//
// # Three sources, three structures
//
//   - [Index]: the blocks that endpoints hold, from their cache events.
//   - [Predictor]: the blocks that they will hold shortly, because a request was
//     just sent.
//   - [Assumed]: the blocks that an endpoint without events is assumed to hold,
//     from the requests it served and its capacity: a model of the engine's LRU.
//
// # How Index works
//
// A run is a stretch of consecutive blocks of one chain that the same set of
// holders holds. One small table (heads) maps the own hash of a run's first
// block to the run; the end of one run leads to the next by looking up the
// request's own next hash, so no tree is needed. A lookup compares the end of
// each run with the request (equal there means equal before), bisects where
// they differ, and intersects holder sets. It costs O(runs on the path), not
// O(blocks), and is exact whatever gaps evictions leave: a gap ends a run.
//
//	heads   own hash of a run's first block → run
//	runs    [base, base+len) in the arena, holder set, version
//	arena   own and engine hash of every block, 16 B a block
//	sets    interned holder sets (bit sets)
//	names   engine hash → block, 5–6 B a block, the key is in the arena
//	aliases (holder, engine hash) → block, where names alone would be wrong
//
// Runs stay long under interleaved events by two means: room to grow behind
// the end of a chain (room.go) and compaction of paths that lookups found to be
// long (compact.go).
//
// # Concurrency
//
// Any number of goroutines may call Match, MatchTiers and Stats at any time;
// lookups take no lock. Store, Remove, RemoveHolder, Own, Maintain and Tick may
// be called from any goroutine too; they take the one writer lock, for at most
// about 0.3 ms at a time. The caller must apply events of one holder in their
// order.
//
// # Memory
//
// Everything an Index takes is counted and stays below Config.BudgetBytes.
// Over the budget it evicts runs that were not used for long and that few
// holders have. It may then report less than the engines hold, but never more.
package kvindex
