package autoscale

import "time"

// Drain is the stage of an endpoint that is taken out of service.
type Drain uint8

const (
	Serving    Drain = iota
	NoSessions       // no requests of sessions that are new to it, if another endpoint can take them
	NoRequests       // no further requests; those in flight go on
)

var drainNames = [...]string{"serving", "no_sessions", "no_requests"}

// String returns the stage as operators see it.
func (d Drain) String() string { return drainNames[d] }

// Node is one endpoint of a pool at a tick.
type Node struct {
	ID       string // unique in the pool; the driver's name, else the URL
	Since    time.Time
	Ready    bool
	Failing  bool          // was ready, and has not been for long
	Held     bool          // an operator has drained it: it takes no requests and is not removed
	InFlight int           // requests on it
	Oldest   time.Duration // age of the oldest of them
	Sessions int           // sessions whose last request was recently placed here
	Heat     float64       // tokens cached here and nowhere else, weighted by recent use
	Price    float64       // per hour, in the operator's unit
	Spot     bool          // its machine may be taken away at any time
}

// Fleet is the part of the router that owns endpoints. A Controller calls it
// from New and Tick only. Unknown ids are ignored.
type Fleet interface {
	// Nodes returns the endpoints of a pool. The caller owns the slice.
	Nodes(pool string) []Node
	// Drain sets the drain stage of an endpoint.
	Drain(pool, id string, d Drain)
	// Adopt makes machines endpoints of the pool; those that are endpoints already do
	// not change. Its error names those that are refused, with the reason.
	Adopt(pool string, m []Machine) error
	// Remove removes an endpoint. Requests that it still has end as if the endpoint
	// had died.
	Remove(pool, id string)
}
