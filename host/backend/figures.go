package backend

import (
	"math"
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// roundTrips keeps the durations of the last health checks that succeeded. The
// shortest is the round trip plus the least time of the engine's HTTP server, a
// fraction of a millisecond: precise enough to compare regions.
type roundTrips struct {
	took  [16]time.Duration
	taken int
}

func (r *roundTrips) take(d time.Duration) {
	r.took[r.taken%len(r.took)] = max(d, time.Microsecond)
	r.taken++
}

// millis returns the shortest in milliseconds, 0 before the first.
func (r *roundTrips) millis() float32 {
	n := min(r.taken, len(r.took))
	if n == 0 {
		return 0
	}
	return float32(slices.Min(r.took[:n]).Seconds() * 1e3)
}

// evictWindow is the time over which evictions are averaged. With a shorter one a
// burst looks like a steady rate; with a longer one a full cache is noticed late.
const evictWindow = 10 * time.Second

// evictions is the moving rate of evicted tokens.
type evictions struct {
	blocks uint64 // as counted at at
	at     time.Time
	rate   float64 // tokens/s
}

// take takes the count of removed blocks at now and returns the rate.
func (e *evictions) take(blocks uint64, size int, now time.Time) float32 {
	dt := now.Sub(e.at).Seconds()
	if e.at.IsZero() || blocks < e.blocks {
		*e = evictions{blocks: blocks, at: now}
		return 0
	}
	if dt > 0 {
		rate := float64((blocks-e.blocks)*uint64(size)) / dt
		e.rate += (rate - e.rate) * (1 - math.Exp(-dt/evictWindow.Seconds()))
		e.blocks, e.at = blocks, now
	}
	return float32(e.rate)
}

// figures are what is known of an endpoint's cache and of the connection to it.
type figures struct {
	cached         uint32
	evicts, roundT float32
	loaded         []string
	event          time.Time
}

// figures returns what is known at now. block is the size that is indexed.
func (w *Watcher) figures(st *Status, feed *FeedStats, mode endpoint.EventMode, s *stream, block int,
	now time.Time) figures {
	f := figures{cached: w.cached(mode, block), evicts: w.evicts.take(feed.RemovedBlocks, block, now),
		roundT: w.trips.millis(), loaded: st.Metrics.Adapters}
	if s != nil {
		f.event = s.sub.Stats().LastBatch
	}
	return f
}

// write puts the figures into the endpoint's state.
func (f *figures) write(e *endpoint.State) {
	e.CachedTokens, e.EvictRate, e.RTTMS, e.Loaded, e.EventAt = f.cached, f.evicts, f.roundT, f.loaded, f.event
}

// cached returns the tokens that the index, or the model of a cache without events,
// has of the endpoint.
func (w *Watcher) cached(mode endpoint.EventMode, block int) uint32 {
	blocks := int64(0)
	if c, ok := w.index.(Counting); ok {
		for t := range tiers {
			blocks += c.Held(holder(w.cfg.ID, t))
		}
	}
	if mode != endpoint.EventsLive && w.assumed != nil {
		blocks = max(blocks, int64(w.assumed.Held(holder(w.cfg.ID, 0))))
	}
	return uint32(min(blocks*int64(block), math.MaxUint32))
}

// sizeAssumed gives the model of a cache without events its assumed size, as long
// as the engine has reported none.
func (w *Watcher) sizeAssumed() {
	if w.assumed != nil && w.sized == 0 && w.cfg.AssumedBlocks > 0 {
		w.assumed.SetCapacity(holder(w.cfg.ID, 0), w.cfg.AssumedBlocks)
	}
}

// size gives the model of a cache without events the size that the engine reports.
// Without a report it keeps what was configured.
func (w *Watcher) size(blocks uint32) {
	if w.assumed == nil || blocks == 0 || blocks == w.sized {
		return
	}
	w.sized = blocks
	w.assumed.SetCapacity(holder(w.cfg.ID, 0), int(blocks))
}
