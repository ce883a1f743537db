// Package simengine is a simulated inference engine that behaves like vLLM to its
// clients and to routers: the OpenAI and the Anthropic HTTP API with
// streaming and usage, vLLM's metric names, KV cache events with replay over ZMQ, a block cache with
// eviction, continuous batching, and a timing model with measured constants.
// It computes no language: an answer is a deterministic text made of the
// vocabulary's own words.
//
// The parts, from the inside out:
//
//   - cache: which blocks are held, leaf-first LRU, reference counts.
//   - hostTier: a second cache in host memory, in chunks, if there is one.
//   - [Model]: continuous batching and the time of each step. It has no clock, no
//     network and no goroutine: the caller determines when a step is over, so the
//     same model runs in real time and in virtual time.
//   - [Engine]: drives a Model by a [Clock], serves HTTP, publishes events.
//
// Routes beside those of the APIs (chat completions, completions, responses,
// messages with count_tokens, models), /tokenize, /health, /version, /metrics, /kv_event_sources and
// /reset_prefix_cache:
//
//	GET    /sim/requests  what was received, a JSON line each (?body=0: without bodies)
//	DELETE /sim/requests  deletes them
//	GET    /sim/cache     size of the cache (?hashes=1: its blocks)
//	GET    /sim/faults    [Faults] in force; POST sets the members it names
//	POST   /sim/restart   as if the process restarted (?down_ms=N: after that time)
//
// Block hashes are vLLM's (a sha256 chain over pickled tuples), computed by
// code of this package alone: a router that agrees with this engine does so
// because both agree with vLLM.
package simengine
