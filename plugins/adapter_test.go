package plugins_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// scorer is a plugin as the scheduler's Scorer. Score is called under the
// decision lock, so that one batch of views serves all decisions.
type scorer struct {
	p         *wasm.Plugin
	objective uint64
	views     wasm.Batch
	ids       []uint32
}

func (s *scorer) Name() string { return s.p.Name() }

func (s *scorer) Unit() scheduler.Unit {
	if s.p.Manifest().Roles[wasm.Score].Unit == abi.UnitCostTokens {
		return scheduler.CostTokens
	}
	return scheduler.UnitScore
}

func (s *scorer) Score(b *scheduler.Batch) error {
	v := &s.views
	v.N, v.PromptTokens, v.MaxTokens, v.Seed, v.NowMS = b.N, b.PromptTokens, b.MaxTokens, b.Seed, b.NowMS
	v.Request[abi.ReqObjective] = s.objective
	s.ids = s.ids[:0]
	for _, id := range b.Endpoints {
		s.ids = append(s.ids, abi.EndpointID(uint32(id), 0))
	}
	v.EndpointIDs = s.ids
	c := &v.Columns
	c[abi.ColMatchedTokens], c[abi.ColUncachedTokens], c[abi.ColOutstandingUncachedTokens] = b.Matched, b.Uncached,
		b.Outstanding
	c[abi.ColInflight], c[abi.ColKVActiveTokens], c[abi.ColSpeed] = b.Inflight, b.KVActive, b.Speed
	c[abi.ColDecodeDelayTokens] = b.Delay
	c[abi.ColRunning], c[abi.ColWaiting], c[abi.ColKVUsage] = b.Running, b.Waiting, b.KVUsage
	c[abi.ColIndexTrust], c[abi.ColAgeMS] = b.Trust, b.AgeMS
	return s.p.Score(v, b.Scores, nil)
}

// TestScorer_scheduler: a plugin replaces the built-in scorer, without an
// allocation.
func TestScorer_scheduler(t *testing.T) {
	var s scheduler.Scorer = &scorer{p: load(t, "leastwork", wasm.Options{}), objective: abi.ObjectiveBlend}
	if s.Name() != "leastwork" || s.Unit() != scheduler.CostTokens {
		t.Errorf("%s in %v", s.Name(), s.Unit())
	}
	builtin := scheduler.NewLeastWork(scheduler.Blend)
	bb := newBatches(64, rand.New(rand.NewPCG(3, 4)))
	want := bb.native
	want.Scores = make([]float32, 64)
	if err := builtin.Score(&want); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Score(&bb.native); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per decision, want 0", n)
	}
	for i := range want.Scores {
		if math.Float32bits(want.Scores[i]) != math.Float32bits(bb.native.Scores[i]) {
			t.Fatalf("candidate %d: got %v, want %v", i, bb.native.Scores[i], want.Scores[i])
		}
	}
}
