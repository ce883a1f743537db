package scheduler

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
)

// modelState is the state of one model, shared by all revisions of the rules. It is safe for concurrent use.
type modelState struct {
	conversations conversations
	parity        parity
	media         mean // tokens that the engine makes of media, by token of the estimate
	output        mean // tokens of its last answers
	work          mean // uncached tokens of its last prompts
	guard         guard
	warmth        warmth
	reuse         reuse
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

// all returns the state of every model by name.
func (t *modelTable) all() map[string]*modelState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.models)
}

// meanDecay makes a mean that of the last hundred values.
const meanDecay = 0.01

// mean is a moving mean. The zero mean has no value yet. It is safe for concurrent use.
type mean struct{ bits atomic.Uint64 } // of a float64

// add counts one value, at least 0.
func (m *mean) add(v float64) {
	for {
		was := m.bits.Load()
		x := math.Float64frombits(was)
		if x == 0 {
			x = v
		}
		x += meanDecay * (v - x)
		if m.bits.CompareAndSwap(was, math.Float64bits(max(0, x))) {
			return
		}
	}
}

// get returns the mean, 0 before any value.
func (m *mean) get() float64 { return math.Float64frombits(m.bits.Load()) }
