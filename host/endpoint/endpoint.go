// Package endpoint holds what the router knows of its endpoints: their
// attributes, what they report, what this router has sent them, and whether they
// answer.
//
// An endpoint is one worker address (one data-parallel rank). It lives in a
// dense slot, its [ID]; slots are reused and the epoch tells one use of a
// slot from the next. Readers take one immutable [Snapshot] of columns per
// request with a single atomic load. What changes with every request (work in
// flight, breaker, learned rate) is in the endpoint's [Load], which outlives its
// removal for as long as a request refers to it.
package endpoint

import (
	"slices"
	"time"
)

// MaxEndpoints bounds the slots of a Store. 2,048 keeps a candidate set at
// 256 bytes, small enough for the stack; larger fleets are several routers.
const MaxEndpoints = 2048

// SetWords is the length of a Set that can hold every slot.
const SetWords = MaxEndpoints / 64

// ID is a slot of a Store, below MaxEndpoints.
type ID uint32

// EventMode is the source of what the router knows of an endpoint's cache.
type EventMode uint8

const (
	EventsOff       EventMode = iota // nothing is known
	EventsLive                       // the engine's own cache events
	EventsPredicted                  // a model fed by what was routed there
)

// String returns "off", "live" or "predicted".
func (m EventMode) String() string {
	switch m {
	case EventsLive:
		return "live"
	case EventsPredicted:
		return "predicted"
	}
	return "off"
}

// LabelPool is the label every endpoint has: the name of its pool.
const LabelPool = "pool"

// LabelIsolation is the label that says whether the engine was seen to isolate
// the caches of different salts. Every endpoint has it, with one of the Isolation
// values.
const LabelIsolation = "isolation"

// Values of LabelIsolation.
const (
	IsolationVerified   = "verified"   // one salt found its prompt again, another did not
	IsolationUnverified = "unverified" // not probed, or the probe showed nothing
	IsolationNone       = "none"       // another salt found it too, or the engine ignores salts
)

// Info identifies and describes an endpoint. It is immutable; Add fills ID and
// Epoch and copies Labels.
type Info struct {
	ID      ID
	Epoch   uint32 // counts the uses of all slots, from 1; never reused within a Store
	URL     string // as configured, e.g. "http://10.0.0.1:8000"
	Addr    string // host:port to dial
	Pool    string
	Dialect string            // vllm, sglang, …
	Labels  map[string]string // labels of the pool; "pool" is set by Add
	Price   float32           // of a GPU second beside that of other pools, 0 = not set
	Spot    bool              // may be taken away at any moment
}

// State is what an endpoint reports and what was decided about it, written
// through [Store.Update]. The zero State is not ready and not trusted.
type State struct {
	Ready    bool   // healthy and serving
	Reason   string // why not ready; "" when it is
	Sleeping bool   // the engine gave up its memory
	Draining bool   // no further placements; requests in flight end normally
	Held     Hold   // by an operator, whatever else is decided
	Cordoned bool   // no further conversations, as long as another endpoint can take them

	Running uint32  // requests the engine computes
	Waiting uint32  // requests queued in the engine
	KVUsage float32 // share of KV memory in use, in [0, 1]

	BlockTokens uint32 // tokens per KV block, 0 = unknown
	CacheBlocks uint32 // KV blocks the engine has, 0 = unknown
	MaxModelLen uint32 // prompt + output tokens it takes, 0 = unknown

	// NoSalt is a set of operations, bit n for llmapi.Operation(n), in which the
	// engine ignores cache salts: different salts share its cache.
	NoSalt uint16

	Trust  float32 // weight of what is known of its cache, in [0, 1]
	Events EventMode

	// EarlierBlocks says that it may hold blocks that the router has not seen, from
	// before the router started or of lost events: it finds more cached than predicted.
	EarlierBlocks bool

	Models   []string // names it serves; empty = unknown: it is taken to serve those of its pool. Immutable
	Adapters []string // LoRA adapters it can serve. Immutable
	Loaded   []string // of these, those that requests ran with at the last scrape. Immutable

	CachedTokens uint32    // tokens whose blocks the index knows there
	EvictRate    float32   // tokens/s evicted, by its events, mean of the last ten seconds
	RTTMS        float32   // shortest of the last health checks, which is a round trip and little else; 0 = unknown
	EventAt      time.Time // of its last cache event, zero = there was none

	Isolation string // one of the Isolation values, "" = unverified

	ScrapedAt time.Time // when the figures above were read

	others Others // by these figures; set by Store.Update
}

// equalButFigures reports whether s and o differ at most in the figures that an endpoint
// reports again and again. Topology, which is models, adapters and isolation, is not
// compared.
func (s *State) equalButFigures(o *State) bool {
	return s.Ready == o.Ready && s.Reason == o.Reason && s.Sleeping == o.Sleeping && s.Draining == o.Draining &&
		s.Held == o.Held && s.Cordoned == o.Cordoned && s.BlockTokens == o.BlockTokens &&
		s.CacheBlocks == o.CacheBlocks && s.MaxModelLen == o.MaxModelLen && s.NoSalt == o.NoSalt &&
		s.Trust == o.Trust && s.Events == o.Events && s.EarlierBlocks == o.EarlierBlocks && slices.Equal(s.Loaded, o.Loaded)
}

// serving reports whether an endpoint in this state takes further requests.
func (s *State) serving() bool {
	return s.Ready && !s.Sleeping && !s.Draining && s.Held != HoldDrained
}

// Hold is how far an operator takes an endpoint out of service.
type Hold uint8

const (
	HoldNone     Hold = iota
	HoldCordoned      // as State.Cordoned
	HoldDrained       // as State.Draining
)

// String returns the value that operators see: "", "cordoned" or "drained".
func (h Hold) String() string { return [...]string{"", "cordoned", "drained"}[h] }

func (s *State) isolation() string {
	if s.Isolation == "" {
		return IsolationUnverified
	}
	return s.Isolation
}
