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

// info returns the endpoint of a candidate.
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
	reasonReady // the text is in Snapshot.Reasons
	reasonContext
	reasonCordoned
	reasonBreaker
	reasonCap
	reasonLoad
	reasonShare
	reasonRamp
	reasonProbe
	reasonFilter // the text is in rating.dropped
	numReasons
)

// reasons has one row for each reason: its text in explain, and the text of the
// refusal if no endpoint was filtered for a later reason. The reasons are ordered
// by how close to being eligible the endpoint was.
var reasons = [numReasons]struct{ text, refusal string }{
	reasonNone:       {"", "the model has none"},
	reasonTenant:     {"reserved for another tenant", "none is for this tenant"},
	reasonConstraint: {"policy constraint", "none satisfies the policy's constraints"},
	reasonSalt: {"no cache isolation for this operation",
		"none has the cache isolation this tenant needs for this operation"},
	reasonState: {"does not keep the response to continue",
		"the endpoint that keeps the response to continue is not eligible"},
	reasonModel:    {"model not served", "none serves this model"},
	reasonReady:    {"not ready", "none is ready"},
	reasonContext:  {"context too long", unavailable},
	reasonCordoned: {"cordoned: takes no new conversations", unavailable},
	reasonBreaker:  {"breaker open", unavailable},
	reasonCap:      {"at its cap of requests", unavailable},
	reasonLoad:     {"load above the envelope", unavailable},
	reasonShare:    {"one tenant has most of its work", unavailable},
	reasonRamp:     {"slow start", unavailable},
	reasonProbe:    {"probe under way", unavailable},
	reasonFilter:   {"dropped by a filter", unavailable},
}

// unavailable is the refusal where endpoints were eligible and none takes requests.
const unavailable = "none answers"

// reasonText returns the reason of candidate i for explain.
func (d *decision) reasonText(c *cand, i int) string {
	switch c.why {
	case reasonReady:
		return d.snap.Reasons[c.id]
	case reasonFilter:
		return d.dropped[i]
	}
	return reasons[c.why].text
}

// candState says what became of a candidate.
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
