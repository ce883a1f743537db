package scheduler

import (
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Batch is one decision's candidates in columns, the input and output of a
// Scorer. Every column is [N], in candidate order; values are finite, in
// tokens where not said otherwise. What a Column names is filled only where
// somebody reads it, and undefined otherwise. It is valid during the call.
type Batch struct {
	N            int
	PromptTokens uint32
	MaxTokens    uint32  // output tokens asked for, 0 = unknown
	Seed         uint64  // keyed hash of the request id
	NowMS        float64 // Unix milliseconds, frozen for the call

	Op        llmapi.Operation
	BodyBytes int
	Tenant    uint64 // keyed hash
	Session   uint64 // hash, 0 = none
	Model     string
	Priority  float32 // of policy's decision, higher = sooner
	Adapter   string  // LoRA adapter asked for, as the engines call it, "" = none
	Capped    bool    // some endpoint that could have taken it is at its cap of requests
	Affinity  float32 // weight policy gives a cached prefix, 1 = as it is; Uncached is scaled by it

	Endpoints []endpoint.ID
	Infos     []*endpoint.Info // who they are; ColInfos

	Matched     []float32 // leading prompt tokens held, any tier, as the engine would reuse them
	Uncached    []float32 // prompt tokens to compute, ≥ 1: matches weighted by tier, trust and affinity
	Outstanding []float32 // uncached tokens this router sent that are not prefilled yet
	Inflight    []float32 // requests this router has there
	KVActive    []float32 // tokens of those requests
	Speed       []float32 // S(w): how much longer a token takes there than on the mean, 1 = as long
	Running     []float32 // requests, as the engine reported; ColReported
	Waiting     []float32 // requests, as the engine reported; ColReported
	KVUsage     []float32 // in [0, 1], as the engine reported; ColReported
	Trust       []float32 // in [0, 1]
	AgeMS       []float32 // age of the reported figures in milliseconds; ColReported
	Rates       []float32 // learned prefill tokens/s, 0 = not yet
	Prefer      []float32 // weight of policy's preferences, ≥ 0; taken off the cost whatever the scorers say

	Tiers [MaxTiers][]float32 // of the matched tokens, those found in each tier; ColTiers

	// More are the columns from ColCached on, nil where nobody reads them.
	More [NumColumns][]float32

	Scores []float32 // out: higher is better

	held ColumnSet // columns of More that have memory
	room int       // candidates it is for
}

// Unit is what a scorer's scores are measured in.
type Unit uint8

const (
	CostTokens Unit = iota // minus the cost in prefill tokens of a mean endpoint
	UnitScore              // dimensionless
)

// String returns the manifest's word for u.
func (u Unit) String() string {
	if u == CostTokens {
		return "cost_tokens"
	}
	return "unit"
}

// Scorer rates the candidates of one decision: one call per decision, never
// one per candidate. Score writes b.Scores. It must be a pure function of the
// batch. It is called without locks, concurrently, on the request's goroutine,
// which waits for it. A scorer that returns an error is left out of this decision;
// if none is left the built-in scores it. ErrAbstain is not a fault.
type Scorer interface {
	Name() string
	Unit() Unit
	Score(b *Batch) error
}

// columns is how many float32 columns a Batch has.
const columns = 14 + MaxTiers

// resize gives every column room for n candidates, reusing memory. The columns
// share one allocation; strides are multiples of 16.
func (b *Batch) resize(n int) {
	if cap(b.Endpoints) < n {
		stride := (n + 15) &^ 15
		mem := make([]float32, columns*stride)
		for i, c := range b.all() {
			*c = mem[i*stride : i*stride : (i+1)*stride]
		}
		b.Endpoints = make([]endpoint.ID, 0, stride)
		b.Infos = make([]*endpoint.Info, 0, stride)
	}
	b.N = n
	b.Endpoints, b.Infos = b.Endpoints[:n], b.Infos[:n]
	for _, c := range b.all() {
		*c = (*c)[:n]
	}
}

func (b *Batch) all() [columns]*[]float32 {
	return [columns]*[]float32{&b.Matched, &b.Uncached, &b.Outstanding, &b.Inflight, &b.KVActive, &b.Speed,
		&b.Running, &b.Waiting, &b.KVUsage, &b.Trust, &b.AgeMS, &b.Rates, &b.Prefer, &b.Tiers[0], &b.Tiers[1], &b.Tiers[2], &b.Scores}
}

// CopyTo makes dst a copy that outlives the call, in memory of its own, which
// it uses again. Infos are shared: they are immutable.
func (b *Batch) CopyTo(dst *Batch) {
	mem := *dst
	mem.resize(b.N)
	mem.more(b.held, b.N)
	*dst = *b
	dst.More, dst.held, dst.room = mem.More, mem.held, mem.room
	for c := range b.More {
		copy(dst.More[c], b.More[c])
	}
	dst.Endpoints, dst.Infos = append(mem.Endpoints[:0], b.Endpoints...), append(mem.Infos[:0], b.Infos...)
	from, to, out := b.all(), mem.all(), dst.all()
	for i := range from {
		*out[i] = append((*to[i])[:0], *from[i]...)
	}
}
