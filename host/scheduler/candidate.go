package scheduler

import "github.com/kvasir-router/kvasir/host/endpoint"

// cand is one endpoint of the model's pools in one decision. It is kept small:
// a decision writes one for each endpoint.
type cand struct {
	load     *endpoint.Load
	id       endpoint.ID
	col      int32  // column in the batch, -1 = filtered
	matched  uint32 // tokens in any tier, as the engine would reuse them
	tiers    [MaxTiers]uint32
	uncached float32 // weighted by tier and trust
	class    int8    // index of its block size in the query, -1 = no chain
	state    candState
	why      reason
	pool     uint8 // index in model.pools
}

// info returns who the candidate is.
func (d *decision) info(c *cand) *endpoint.Info { return d.snap.Infos[c.id] }

// reason is why a candidate was filtered or passed over.
type reason uint8

const (
	reasonNone reason = iota
	reasonTenant
	reasonConstraint
	reasonSalt
	reasonState
	reasonModel
	reasonReady // the snapshot has the words
	reasonContext
	reasonCordoned
	reasonBreaker
	reasonCap
	reasonLoad
	reasonShare
	reasonRamp
	reasonProbe
	reasonFilter // rating.dropped has the words
	numReasons
)

// reasons has one row for each reason: the words of explain, and of refusals what
// a client is told if no endpoint came nearer to being eligible. The reasons are
// in the order of how near that is.
var reasons = [numReasons]struct{ words, refusal string }{
	reasonNone:       {"", "the model has none"},
	reasonTenant:     {"kept for another tenant", "none is for this tenant"},
	reasonConstraint: {"policy constraint", "none satisfies the policy's constraints"},
	reasonSalt:       {"no cache isolation for this operation", "none has the cache isolation this tenant needs for this operation"},
	reasonState:      {"does not keep the response to continue", "the one that keeps the response to continue may not"},
	reasonModel:      {"model not served", "none serves this model"},
	reasonReady:      {"not ready", "none is ready"},
	reasonContext:    {"context too long", unavailable},
	reasonCordoned:   {"cordoned: takes no conversations it does not know", unavailable},
	reasonBreaker:    {"breaker open", unavailable},
	reasonCap:        {"at its cap of requests", unavailable},
	reasonLoad:       {"load above the envelope", unavailable},
	reasonShare:      {"one tenant holds most of its work", unavailable},
	reasonRamp:       {"slow start", unavailable},
	reasonProbe:      {"probe under way", unavailable},
	reasonFilter:     {"dropped by a filter", unavailable},
}

// unavailable is the refusal where every eligible endpoint was lost later than by
// what it is.
const unavailable = "none answers"

// words returns the reason of a candidate for explain.
func (d *decision) words(c *cand, i int) string {
	switch c.why {
	case reasonReady:
		return d.snap.Reasons[c.id]
	case reasonFilter:
		return d.dropped[i]
	}
	return reasons[c.why].words
}

// candState is how far a candidate came.
type candState uint8

const (
	candKept candState = iota
	candFiltered
	candEnveloped
	numCandStates
)

var candStateNames = [numCandStates]string{candKept: "kept", candFiltered: "filtered", candEnveloped: "enveloped"}

// String returns explain's word.
func (c candState) String() string { return candStateNames[c] }
