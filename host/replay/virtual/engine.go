package virtual

import (
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/simengine"
)

// Engine describes one engine of a fleet.
type Engine struct {
	Name        string
	Timing      simengine.Timing
	BlockTokens int
	CacheTokens int
	MaxSeqs     int // sequences in one step; 0 = DefaultSeqs
}

// DefaultSeqs is vLLM's bound of the sequences in one step.
const DefaultSeqs = 256

// Preset returns the engine that simengine has under a name, with blocks of n tokens.
func Preset(name string, n int) (Engine, error) {
	t, tokens, err := simengine.Preset(name)
	if err != nil {
		return Engine{}, err
	}
	return Engine{Name: name, Timing: t, BlockTokens: n, CacheTokens: tokens}, nil
}

// Slowed returns the engine with decode steps that take factor times as long; the
// time that a prompt's tokens add is the same.
func Slowed(t simengine.Timing, factor float64) simengine.Timing {
	t.C0 *= factor
	t.Tw *= factor
	t.B *= factor
	return t
}

func (e *Engine) validate() error {
	if e.BlockTokens < 1 || e.CacheTokens < e.BlockTokens {
		return fmt.Errorf("virtual: engine %s: cache of %d tokens in blocks of %d", e.Name, e.CacheTokens, e.BlockTokens)
	}
	if e.Timing.Budget < 1 {
		return fmt.Errorf("virtual: engine %s: budget of %d tokens a step", e.Name, e.Timing.Budget)
	}
	if e.MaxSeqs < 0 {
		return fmt.Errorf("virtual: engine %s: %d sequences", e.Name, e.MaxSeqs)
	}
	return nil
}

// engine is an engine in a run.
type engine struct {
	index int
	spec  *Engine
	model *simengine.Model
	busy  bool          // a step is under way
	began time.Duration // of that step

	stats   EngineStats
	waiting float64 // sum of the waiting requests over scrapes
}

// EngineStats are totals of one engine over a run.
type EngineStats struct {
	Name           string
	Requests       int           // that were placed on it by the router
	Foreign        int           // that came from elsewhere
	Busy           time.Duration // time in steps
	ComputedTokens uint64        // prompt and output
	PromptTokens   uint64
	CachedTokens   uint64  // of PromptTokens, found in the cache
	MeanWaiting    float64 // requests, over the scrapes
	MaxWaiting     int
}

func newEngine(i int, spec *Engine) *engine {
	seqs := spec.MaxSeqs
	if seqs == 0 {
		seqs = DefaultSeqs
	}
	return &engine{index: i, spec: spec, stats: EngineStats{Name: spec.Name}, model: simengine.NewModel(
		simengine.ModelConfig{Timing: spec.Timing, BlockTokens: spec.BlockTokens,
			CacheBlocks: spec.CacheTokens / spec.BlockTokens, MaxSeqs: seqs})}
}

// figures returns what a scrape of the engine reports.
func (e *engine) figures() Figures {
	s := e.model.Stats()
	return Figures{Running: s.Running, Waiting: s.Waiting, KVUsage: s.CacheUsage,
		CachedTokens: s.CacheBlocks * e.spec.BlockTokens}
}
