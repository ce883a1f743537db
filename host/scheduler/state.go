package scheduler

import (
	"crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/isolation"
	"github.com/kvasir-router/kvasir/host/quota"
)

// Matcher is the index of cached blocks (kvindex.Index). Match sets depth[h], for every
// holder h in the bitset candidates, to the number of leading hashes that h holds. It
// is safe for concurrent use and keeps no argument.
type Matcher interface {
	Match(hashes, candidates []uint64, depth []uint32)
}

// Predictor holds, for a short time, the blocks that endpoints are about to hold
// (kvindex.Predictor). It is safe for concurrent use and keeps no slice.
type Predictor interface {
	Add(holder int, hashes []uint64)
	// Raise raises depth[h] where the prediction is deeper; scratch has the length
	// of depth.
	Raise(hashes, candidates []uint64, depth, scratch []uint32)
}

// Assumed models the caches of endpoints without events (kvindex.Assumed). It
// is safe for concurrent use and keeps no slice.
type Assumed interface {
	Touch(holder int, hashes []uint64)
	Match(hashes, candidates []uint64, depth []uint32)
}

// MaxTiers bounds the memory tiers of an endpoint: GPU, host, disk.
const MaxTiers = 3

// Locality is the sources of what is known about cached blocks. Each may be nil. A
// holder is one tier of one endpoint.
type Locality struct {
	Index     Matcher
	Predictor Predictor
	Assumed   Assumed
	// History judges whether cached tokens are the request's own namespace's. nil =
	// nothing is judged.
	History *isolation.History

	Holders int       // number of holders
	Tiers   []float32 // [1..MaxTiers] weight of a cached token by tier; nil = {1}
	// HolderOf returns the number of a holder; nil = the endpoint's id, with one tier.
	// Predictor and Assumed have tier 0 only.
	HolderOf func(id endpoint.ID, tier int) int
}

// Observation is one finished placement. It is valid during the call.
type Observation struct {
	Endpoint endpoint.ID
	Epoch    uint32 // of the endpoint's slot
	Pool     string
	Model    string
	Tenant   string

	Kind            Kind
	PromptTokens    int // as computed by the router, 0 = unknown
	PredictedCached int // tokens
	Streamed        bool
	// Unexplained is the tokens reported as cached that the request's namespace cannot
	// hold: the engine reused blocks of another namespace.
	Unexplained int
	// EarlierBlocks is endpoint.State's: too low a prediction is then no fault.
	EarlierBlocks bool
	Outcome       exchange.Outcome
}

// Observer is called for every finished placement, without locks, on the request's
// goroutine. It must return within microseconds.
type Observer interface {
	Observe(o *Observation)
}

// StateConfig configures a State.
type StateConfig struct {
	Store    *endpoint.Store // required
	Locality Locality
	Observer Observer // may be nil
	// Contradicted is called when an engine begins to count the prompt tokens of a
	// model differently, and when it no longer does: differ of the last of answers do. It
	// is called without locks and must return soon. May be nil.
	Contradicted func(model, url string, bad bool, differ, of int)
	// Quota counts the usage of tenants against the limits of their decisions. nil = a
	// new table.
	Quota *quota.Table

	// TraceEntries is how many decisions are kept for Explain, default 10,000.
	TraceEntries int
	// TraceBytes bounds the memory of their candidates, default 32 MiB: 10,000
	// decisions over 32 endpoints. If it is too small, fewer decisions are kept.
	TraceBytes int
	// Log gets changes of the weight of locality; nil = discard.
	Log *slog.Logger
	// Seed keys the hashes of request ids (ties, control arm); 0 = random.
	Seed uint64
	// Now is the clock, nil = time.Now.
	Now func() time.Time
}

// State is the part of placement that outlives a revision of the rules: work in
// flight, conversations, sessions, traces, counters. All methods may be called
// concurrently. It has no common lock: decisions exclude each other by lane, and each
// part has its own lock or shards.
type State struct {
	cfg     StateConfig
	store   *endpoint.Store
	loc     Locality
	now     func() time.Time
	stats   counters
	trace   traces
	masks   maskCache
	quota   *quota.Table
	scratch sync.Pool     // *decision
	prompts sync.Pool     // *promptMem
	places  sync.Pool     // *Placement
	sampled atomic.Uint64 // requests that were eligible for the control arm

	locality atomic.Pointer[LocalitySwitch] // an operator's; nil = none
	lanes    laneTable
	models   modelTable
	sessions homes[uint64]
	answers  homes[answerKey] // of OpResponses
	waiting  waitingLists     // placements before their first token
	keys     maphash.Seed     // of session keys
}

// NewState returns an empty state.
func NewState(cfg StateConfig) *State {
	if cfg.TraceEntries <= 0 {
		cfg.TraceEntries = 10_000
	}
	if cfg.TraceBytes <= 0 {
		cfg.TraceBytes = 32 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Seed == 0 {
		var b [8]byte
		rand.Read(b[:])
		cfg.Seed = binary.LittleEndian.Uint64(b[:])
	}
	if len(cfg.Locality.Tiers) == 0 {
		cfg.Locality.Tiers = []float32{1}
	}
	cfg.Locality.Tiers = cfg.Locality.Tiers[:min(len(cfg.Locality.Tiers), MaxTiers)]
	if cfg.Locality.HolderOf == nil {
		cfg.Locality.HolderOf = func(id endpoint.ID, _ int) int { return int(id) }
		cfg.Locality.Tiers = cfg.Locality.Tiers[:1]
	}
	if cfg.Locality.Holders == 0 {
		cfg.Locality.Holders = endpoint.MaxEndpoints * len(cfg.Locality.Tiers)
	}
	s := &State{cfg: cfg, store: cfg.Store, loc: cfg.Locality, now: cfg.Now}
	s.trace = newTraces(cfg.TraceEntries, cfg.TraceBytes)
	s.masks.init()
	if s.quota = cfg.Quota; s.quota == nil {
		s.quota = quota.New(cfg.Now)
	}
	s.keys = maphash.MakeSeed()
	s.sessions.init(func(_ maphash.Seed, key uint64) uint64 { return key >> 32 }) // it is a keyed hash
	s.answers.init(func(seed maphash.Seed, key answerKey) uint64 { return maphash.String(seed, key.id) })
	return s
}

// Refresh predicts the chains of requests without a first token again, so that a
// prefill that takes longer than the predictor's time to live stays predicted. The
// owner of the predictor calls it after each rotation.
func (s *State) Refresh() {
	if s.loc.Predictor == nil {
		return
	}
	for _, r := range s.waiting.all() {
		r.p.mu.Lock()
		if r.p.live == r.seq {
			r.p.predict()
		}
		r.p.mu.Unlock()
	}
}

// Quota returns the counts of the tenants' budgets.
func (s *State) Quota() quota.Stats { return s.quota.Stats() }

// hashID returns a keyed hash of a request id or tenant.
func (s *State) hashID(id string) uint64 {
	h := s.cfg.Seed
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 0x100000001b3
	}
	return mix(h)
}

// mix is the finalizer of splitmix64.
func mix(z uint64) uint64 {
	z += 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
