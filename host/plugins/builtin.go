package plugins

import (
	"sync/atomic"

	"github.com/kvasir-router/kvasir/host/scheduler"
)

// roundRobin is the scorer that uses the candidates in turn: the baseline for
// measurements of locality.
type roundRobin struct{ next atomic.Uint64 }

func (*roundRobin) Name() string         { return "roundrobin" }
func (*roundRobin) Unit() scheduler.Unit { return scheduler.UnitScore }

// Wants implements scheduler.Wanter.
func (*roundRobin) Wants() scheduler.ColumnSet { return 0 }

// Score scores the candidate whose turn it is 0 and each following one less.
func (r *roundRobin) Score(b *scheduler.Batch) error {
	if b.N == 0 {
		return nil
	}
	turn := int((r.next.Add(1) - 1) % uint64(b.N))
	for i := range b.N {
		b.Scores[i] = -float32((i - turn + b.N) % b.N)
	}
	return nil
}

// builtin returns a built-in scorer by its name in the configuration.
func builtin(name, objective string) scheduler.Scorer {
	if name == "roundrobin" {
		return new(roundRobin)
	}
	return scheduler.NewLeastWork(scheduler.Objective(objective))
}
