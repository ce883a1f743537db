package router

import (
	"fmt"
	"math"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/replay/virtual"
	"github.com/kvasir-router/kvasir/host/simengine"
)

// epoch is the wall clock at the beginning of a run.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// poolName is the pool of all engines.
const poolName = "main"

// rotateTicks is how many ticks of a second a half of the predictor lives: the
// product's (host.predictionTTL) is 2 s.
const rotateTicks = 2

// knowledge is what a router knows of the fleet. Endpoint ids are the indexes of
// engines.
type knowledge struct {
	store     *endpoint.Store
	index     *kvindex.Index
	predictor *kvindex.Predictor
	loads     []*endpoint.Load // [engines]
	engines   []virtual.Engine
	now       time.Duration
	ticks     int
	removed   []uint64 // scratch memory
}

// blockBytes is the index's memory for a block that one engine holds, with room for
// blocks in several runs (kvindex counts 25 bytes a distinct block).
const blockBytes = 64

func newKnowledge(engines []virtual.Engine) (*knowledge, error) {
	k := &knowledge{store: endpoint.NewStore(), engines: engines}
	blocks := 0
	for i := range engines {
		e := &engines[i]
		id, err := k.store.Add(endpoint.Info{URL: fmt.Sprintf("http://engine-%d", i), Addr: fmt.Sprintf("engine-%d:80", i),
			Pool: poolName, Dialect: "vllm"})
		if err != nil {
			return nil, fmt.Errorf("router: %w", err)
		}
		size := e.CacheTokens / e.BlockTokens
		blocks += size
		k.store.Update(id, func(s *endpoint.State) {
			s.Ready, s.Trust, s.Events = true, 1, endpoint.EventsLive
			s.BlockTokens, s.CacheBlocks = uint32(e.BlockTokens), uint32(size)
			s.MaxModelLen = uint32(min(e.CacheTokens, math.MaxInt32))
		})
		k.loads = append(k.loads, k.store.Load().Loads[id])
	}
	k.index = kvindex.New(kvindex.Config{Holders: len(engines), BudgetBytes: int64(blocks)*blockBytes + 16<<20})
	k.predictor = kvindex.NewPredictor(kvindex.Config{Holders: len(engines)})
	return k, nil
}

// clock is the wall clock of the run.
func (k *knowledge) clock() time.Time { return epoch.Add(k.now) }

// Events keeps the index.
func (k *knowledge) Events(now time.Duration, engine int, events []simengine.Event) {
	k.now = now
	k.removed = k.removed[:0]
	for i := range events {
		e := &events[i]
		if e.Seq == nil {
			k.removed = append(k.removed, e.Removed)
			continue
		}
		k.flush(engine)
		run := e.Seq.Hashes[e.From:e.To]
		parent, hasParent := uint64(0), e.From > 0
		if hasParent {
			parent = e.Seq.Hashes[e.From-1]
		}
		// An orphan is a block whose parent the index gave up to stay within its budget.
		_ = k.index.Store(engine, parent, hasParent, run, run)
	}
	k.flush(engine)
}

func (k *knowledge) flush(engine int) {
	if len(k.removed) > 0 {
		k.index.Remove(engine, k.removed)
		k.removed = k.removed[:0]
	}
}

// Scraped writes an engine's figures to the store.
func (k *knowledge) Scraped(now time.Duration, engine int, f virtual.Figures) {
	k.now = now
	at := k.clock()
	k.store.Update(endpoint.ID(engine), func(s *endpoint.State) {
		s.Running, s.Waiting, s.KVUsage = uint32(f.Running), uint32(f.Waiting), float32(f.KVUsage)
		s.CachedTokens, s.ScrapedAt, s.EventAt = uint32(f.CachedTokens), at, at
	})
	k.store.Flush()
}

// tick keeps the index and the predictions, as host.housekeep does. It reports whether
// predictions have to be made again.
func (k *knowledge) tick(now time.Duration) (rotated bool) {
	k.now = now
	k.ticks++
	k.index.Tick()
	k.index.Maintain(maintainFor)
	if k.ticks%rotateTicks == 0 {
		k.predictor.Rotate()
		return true
	}
	return false
}

// maintainFor bounds the index's own work a tick.
const maintainFor = time.Millisecond
