package scheduler

import (
	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Batch is the candidates of one decision in columns, the input and output of a
// Scorer. Every column is [N], in candidate order; values are finite, and in tokens
// unless stated otherwise. Infos, and the columns "if read", are filled only if an
// extension reads it, and undefined otherwise. A Batch is valid during the call.
type Batch struct {
	N            int
	PromptTokens uint32
	MaxTokens    uint32  // output tokens asked for, 0 = unknown
	Seed         uint64  // keyed hash of the request id
	NowMS        float64 // Unix milliseconds, frozen for the call

	Op        llmapi.Operation
	BodyBytes int
	Tenant    uint64 // keyed hash
	Session   uint64 // keyed hash, 0 = none
	Model     string
	Priority  float32 // of policy's decision, higher = sooner
	Adapter   string  // LoRA adapter asked for, as the engines call it, "" = none
	Capped    bool    // an eligible endpoint is at its cap of requests
	Affinity  float32 // weight that policy gives cached prefixes, 1 = unchanged; Uncached includes it

	Endpoints []endpoint.ID
	Infos     []*endpoint.Info // ColInfos

	Matched     []float32 // leading prompt tokens cached in any tier, as the engine would reuse them
	Uncached    []float32 // prompt tokens to compute, ≥ 1: matches weighted by tier, trust and affinity
	Outstanding []float32 // uncached tokens that this router has sent and that are not prefilled yet
	Inflight    []float32 // requests of this router
	KVActive    []float32 // tokens of those requests
	Speed       []float32 // S(w): time per token relative to the mean endpoint
	Delay       []float32 // cost of decoding more slowly than other candidates
	Running     []float32 // requests, as the engine reported; if read
	Waiting     []float32 // requests, as the engine reported; if read
	KVUsage     []float32 // in [0, 1], as the engine reported; if read
	Trust       []float32 // in [0, 1]
	AgeMS       []float32 // age of the reported figures in milliseconds; if read
	Rates       []float32 // learned prefill tokens/s, 0 = not learned yet
	Prefer      []float32 // weight of the policy's preferences, ≥ 0; the host subtracts it from the cost

	Tiers [MaxTiers][]float32 // the matched tokens by tier; if read

	// More are further columns by their place in the registry of the plugin ABI
	// (abi.Col…), nil if no extension reads them.
	More [abi.NumColumns][]float32

	Scores []float32 // out: higher is better

	held ColumnSet // columns of More that have memory
	room int       // candidates that the memory is for
}

// Unit is the unit of a scorer's scores.
type Unit uint8

const (
	CostTokens Unit = iota // minus the cost in prefill tokens of a mean endpoint
	UnitScore              // dimensionless
)

// String returns the name of u in plugin manifests.
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

// columns is the number of float32 columns of a Batch, without More.
const columns = 15 + MaxTiers

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

// all returns the columns of the batch, without More.
func (b *Batch) all() [columns]*[]float32 {
	return [columns]*[]float32{&b.Matched, &b.Uncached, &b.Outstanding, &b.Inflight, &b.KVActive, &b.Speed, &b.Delay,
		&b.Running, &b.Waiting, &b.KVUsage, &b.Trust, &b.AgeMS, &b.Rates, &b.Prefer,
		&b.Tiers[0], &b.Tiers[1], &b.Tiers[2], &b.Scores}
}

// Column returns a column of the plugin ABI (abi.Col…) of float32, nil if this host does
// not know it or no extension reads it.
func (b *Batch) Column(c int) []float32 {
	switch c {
	case abi.ColMatchedTokens:
		return b.Matched
	case abi.ColMatchedTokensGPU:
		return b.Tiers[0]
	case abi.ColMatchedTokensCPU:
		return b.Tiers[1]
	case abi.ColMatchedTokensDisk:
		return b.Tiers[2]
	case abi.ColUncachedTokens:
		return b.Uncached
	case abi.ColOutstandingUncachedTokens:
		return b.Outstanding
	case abi.ColInflight:
		return b.Inflight
	case abi.ColKVActiveTokens:
		return b.KVActive
	case abi.ColSpeed:
		return b.Speed
	case abi.ColDecodeDelayTokens:
		return b.Delay
	case abi.ColRunning:
		return b.Running
	case abi.ColWaiting:
		return b.Waiting
	case abi.ColKVUsage:
		return b.KVUsage
	case abi.ColIndexTrust:
		return b.Trust
	case abi.ColAgeMS:
		return b.AgeMS
	case abi.ColPrefillRate:
		return b.Rates
	case abi.ColPreferWeight:
		return b.Prefer
	}
	return b.More[c]
}

// CopyTo makes dst a copy that outlives the call, in dst's own memory, which is
// reused. Infos are shared: they are immutable.
func (b *Batch) CopyTo(dst *Batch) {
	mem := *dst
	mem.resize(b.N)
	mem.more(b.held, b.N)
	*dst = *b
	dst.More, dst.held, dst.room = mem.More, mem.held, mem.room
	for rest := b.held; rest != 0; {
		var c Column
		c, rest = rest.next()
		copy(dst.More[c], b.More[c])
	}
	dst.Endpoints, dst.Infos = append(mem.Endpoints[:0], b.Endpoints...), append(mem.Infos[:0], b.Infos...)
	from, to, out := b.all(), mem.all(), dst.all()
	for i := range from {
		*out[i] = append((*to[i])[:0], *from[i]...)
	}
}
