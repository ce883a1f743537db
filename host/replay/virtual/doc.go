// Package virtual runs a fleet of engines and a router in virtual time: hours of
// load take seconds, and the same load gives the same result each time.
//
// An engine is a [simengine.Model], the one that the simulated engine runs in real
// time: continuous batching, chunked prefill, a block cache with leaf-first LRU, and
// the step time of its preset. A [Router] places the requests; package router has the
// product's scheduler and the policies that it is compared with. What a router learns
// it learns as in production: cache events at the end of the step that caused them,
// the engine's figures by scrapes, and what it did itself.
//
// The package starts no goroutine. A run is not safe for concurrent use.
package virtual
