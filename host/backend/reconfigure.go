package backend

import (
	"context"
	"reflect"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvevents"
)

// reasonConfig is the reason of a Reset after a change of the configuration that
// gives the engine's blocks other names.
const reasonConfig = "configuration changed"

// Reconfigure replaces the watcher's configuration while it runs; the watcher
// takes it up between two looks at its engine. ID, URL and Rank of cfg must be those
// of the watcher. Without a Client it keeps its own.
//
// The endpoint stays as ready as it is. Its blocks are dropped, and learned
// again from the engine, only where the router's names of its blocks depend on
// what changed: the dialect, the cache identity and the block size. Its error is
// that of Validate.
func (w *Watcher) Reconfigure(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	own := cfg.Client == nil
	cfg = cfg.withDefaults()
	w.mu.Lock()
	if own {
		cfg.Client = w.cfg.Client
	}
	w.pending = &cfg
	if renames(&w.cfg, &cfg) {
		w.renamed.Store(true)
	}
	w.mu.Unlock()
	w.wakeRun()
	return nil
}

// takeConfig takes a pending configuration up.
func (w *Watcher) takeConfig(ctx context.Context) {
	w.mu.Lock()
	next := w.pending
	w.pending = nil
	if next == nil {
		w.mu.Unlock()
		return
	}
	had := w.cfg
	w.cfg = *next
	discovered, caps := w.status.Discovered, w.status.Capabilities
	w.mu.Unlock()

	w.client = w.client.With(next.Client, next.Bearer)
	if renames(&had, next) {
		w.renameBlocks()
	}
	if another(&had, next) {
		w.forgetDialect()
	}
	if had.AssumedBlocks != next.AssumedBlocks {
		w.sizeAssumed()
	}
	w.takeProbe(&had.Probe)
	if discovered {
		w.follow(ctx, &caps)
	}
}

// renames reports whether blocks have other names by next than by had.
func renames(had, next *Config) bool {
	return had.CacheIdentity != next.CacheIdentity || had.BlockTokens != next.BlockTokens || another(had, next)
}

// another reports whether the engine is watched in another way by next than by had.
func another(had, next *Config) bool {
	return had.Dialect != next.Dialect || !reflect.DeepEqual(had.Scrape, next.Scrape)
}

// nameBlocks ends renamed once the engine's events have named all its blocks by the
// current configuration. earlier says that they have not: see earlierBlocks.
func (w *Watcher) nameBlocks(mode endpoint.EventMode, earlier bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mode == endpoint.EventsLive && !earlier && w.pending == nil {
		w.renamed.Store(false)
	}
}

// renameBlocks drops the endpoint's blocks: they have other names by
// the current configuration. The engine's events name them anew once they are
// followed again.
func (w *Watcher) renameBlocks() {
	w.stop() // the feed is idle until follow
	w.feed.rename(w.cfg.CacheIdentity)
	w.clearAssumed()
	w.seen = kvevents.Stats{}
}

// forgetDialect makes the next look discover the engine and compare its figures
// with nothing: figures of another dialect would look like a restart. What is
// known of the engine stays until then, so that it stays in service.
func (w *Watcher) forgetDialect() {
	w.nextFind, w.scraped, w.prev, w.quiet = time.Time{}, time.Time{}, dialect.Metrics{}, quiet{}
	w.resetIsolation()
}

// takeProbe makes a change of the probe's period count from now. Without probes
// nothing is known of the engine's isolation.
func (w *Watcher) takeProbe(had *Probe) {
	switch every := w.cfg.Probe.Every; {
	case every == had.Every:
	case every <= 0:
		w.dropProbes()
	default:
		if due := time.Now().Add(jitter(every)); due.Before(w.probes.next) {
			w.probes.next = due
		}
	}
}

// rename makes the feed name blocks by another cache identity, and drops those
// it has named. It must not be called while events come.
func (f *Feed) rename(identity string) {
	f.identity = identity
	clear(f.seeds)
	f.Reset(reasonConfig)
}
