package scheduler

import (
	"math"
	"sync"
	"sync/atomic"
)

// modelState is the state of one model, shared by all revisions of the rules. It is safe for concurrent use.
type modelState struct {
	conversations conversations
	output        atomic.Uint64 // float64 bits: mean tokens of its last answers, 0 before any
}

// maxModels bounds the models that are kept apart. Beyond it all are forgotten;
// schedulers keep those that they use.
const maxModels = 1024

// modelTable keeps the state of models by name. It is safe for concurrent use.
type modelTable struct {
	mu     sync.Mutex // guards the fields below
	models map[string]*modelState
	limits atomic.Pointer[conversationLimits]
}

// of returns the state of a model, which is made if there is none.
func (t *modelTable) of(name string) *modelState {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.models[name]; m != nil {
		return m
	}
	if len(t.models) >= maxModels || t.models == nil {
		t.models = map[string]*modelState{}
	}
	m := new(modelState)
	m.conversations.init(&t.limits)
	t.models[name] = m
	l := limitsFor(len(t.models))
	t.limits.Store(&l)
	return m
}

// outputDecay makes the mean output length that of the last hundred answers.
const outputDecay = 0.01

// observeOutput counts the output tokens of one answer.
func (m *modelState) observeOutput(tokens int) {
	for {
		was := m.output.Load()
		mean := math.Float64frombits(was)
		if mean == 0 {
			mean = float64(tokens)
		}
		mean += outputDecay * (float64(tokens) - mean)
		if m.output.CompareAndSwap(was, math.Float64bits(max(0, mean))) {
			return
		}
	}
}

// meanOutput returns the mean output tokens of the model, 0 before any answer.
func (m *modelState) meanOutput() float64 { return math.Float64frombits(m.output.Load()) }
