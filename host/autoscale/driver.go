package autoscale

import "context"

// Order tells a [Driver] which machines are needed. It is absolute: however often
// it is sent, the result is Desired machines. The JSON form is what command and
// webhook drivers receive.
type Order struct {
	// Key is the same for every attempt of one order and for no other: the
	// idempotency key. A driver that can only add machines stores it.
	Key  string `json:"key"`
	Pool string `json:"pool"`
	// Desired machines are to exist when the order is done: those that serve, that
	// start and that still drain. Fewer than exist without Remove means: cancel
	// machines that do not serve yet.
	Desired int `json:"desired"`
	// Remove names machines that are drained and to be removed. They are not in
	// Desired.
	Remove []string `json:"remove,omitempty"`
	// Current are the machines the router knows in this pool.
	Current []string `json:"current"`
	Reason  string   `json:"reason"`
	// Fence grows with every router that takes over the scaling; a driver that
	// has seen a greater one refuses.
	Fence uint64 `json:"fence"`
}

// Answer is what a driver knows of its machines after an order.
type Answer struct {
	// Machines are all that exist in the pool, or nil if the driver does not
	// know them: then discovery finds the endpoints.
	Machines []Machine `json:"machines"`
}

// Machine is one endpoint that a driver has started or is starting.
type Machine struct {
	ID    string `json:"id"`              // the driver's name of it
	URL   string `json:"url"`             // base URL; "" while unknown: List is called until it is known
	State string `json:"state,omitempty"` // in the driver's own words; accepted and ignored
	// Events and Replay are where the engine publishes its cache events, as
	// tcp://host:port of the host in URL; "" = as the pool's events section says.
	Events string `json:"events,omitempty"`
	Replay string `json:"replay,omitempty"`
}

// Driver starts and stops machines. Implementations bound their own time by ctx
// and are called by one goroutine at a time per pool.
type Driver interface {
	// List returns the machines that exist or are being started. A controller
	// orders nothing before List has succeeded: it may replace another one.
	List(ctx context.Context, pool string) (*Answer, error)
	// Apply returns when the order is accepted, not when the machines serve. An
	// error means that the result is unknown: the same order with the same key
	// follows later.
	Apply(ctx context.Context, o *Order) (*Answer, error)
}
