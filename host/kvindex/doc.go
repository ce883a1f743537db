// Package kvindex knows which endpoint holds which KV cache blocks.
//
// A run is a stretch of consecutive blocks of one chain that the same set of holders holds. Blocks are
// named by their chained hash (equal hash = equal whole prefix), so no tree is needed: one small table
// maps the hash of a run's first block to the run, and the end of one run leads to the next by looking
// up the request's own next hash. A lookup costs O(runs on the path), not O(blocks).
//
// One writer at a time (Index.mu), any number of lock-free readers (per-run sequence locks).
package kvindex
