package autoscale

import "time"

// Drain is how far an endpoint is taken out of service.
type Drain uint8

const (
	Serving    Drain = iota
	NoSessions       // no request of a session it has not seen, if another endpoint can take it
	NoRequests       // no request at all; those it has go on
)

var drainNames = [...]string{"serving", "no_sessions", "no_requests"}

// String names the stage as the operator sees it.
func (d Drain) String() string { return drainNames[d] }

// Node is one endpoint of a pool as the fleet sees it at a tick.
type Node struct {
	ID       string // unique in the pool; the driver's name, else the URL
	Since    time.Time
	Ready    bool
	Failing  bool          // was ready, and has not been for long
	Held     bool          // an operator has it drained: it serves nobody, and is nobody's to remove
	InFlight int           // requests on it
	Oldest   time.Duration // age of the oldest of them
	Sessions int           // sessions whose last request was placed here not long ago
	Heat     float64       // tokens cached here and nowhere else, weighted by recent use
	Price    float64       // per hour, in the operator's unit
	Spot     bool          // may be taken away by its owner
}

// Fleet is the part of the router that owns endpoints. A Controller calls it
// from Tick only. Unknown ids are ignored.
type Fleet interface {
	// Nodes returns the endpoints of a pool, the caller's to keep.
	Nodes(pool string) []Node
	// Drain sets how far an endpoint is out of service.
	Drain(pool, id string, d Drain)
	// Adopt makes the machines endpoints of the pool; known ones are left alone.
	// What is not allowed there is refused with a reason and not adopted.
	Adopt(pool string, m []Machine) error
	// Remove takes an endpoint out. Its requests, if it has any left, end as if
	// the endpoint had died.
	Remove(pool, id string)
}
