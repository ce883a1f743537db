package autoscale

import "context"

// Order is one need, told to a [Driver]. It is absolute: however often it is
// told, one fleet of Desired machines comes of it. The JSON form is what command
// and webhook drivers get.
type Order struct {
	// Key is the same for every try of one need and for no other: the
	// idempotency key. A driver that can only add machines keeps it.
	Key  string `json:"key"`
	Pool string `json:"pool"`
	// Desired machines are to exist when the order is done: those that serve,
	// that come and that still drain. Less than exist without Remove means: give
	// up machines that have not come.
	Desired int `json:"desired"`
	// Remove names machines that are drained and to be removed. They are not in
	// Desired.
	Remove []string `json:"remove,omitempty"`
	// Current are the machines the router knows in this pool.
	Current []string `json:"current"`
	Reason  string   `json:"reason"`
	// Fence grows with every router that took over the scaling; a driver that
	// saw a greater one refuses.
	Fence uint64 `json:"fence"`
}

// Answer is what a driver knows of its machines after an order.
type Answer struct {
	// Machines are all that exist in the pool, or nil if the driver does not
	// know them: then endpoints come by discovery.
	Machines []Machine `json:"machines"`
}

// Machine is one endpoint that a driver has made or is making.
type Machine struct {
	ID    string `json:"id"`  // the driver's name of it
	URL   string `json:"url"` // base URL; "" while unknown: List is called until it is told
	State string `json:"state,omitempty"`
	// Events and Replay are where the engine publishes its cache events, as
	// tcp://host:port of the host in URL; "" = as the pool's events section says.
	Events string `json:"events,omitempty"`
	Replay string `json:"replay,omitempty"`
}

// Driver makes and unmakes machines. Implementations bound their own time by ctx
// and are called by one goroutine at a time per pool.
type Driver interface {
	// List returns the machines that exist or are being made. A controller
	// orders nothing before it was answered: it may be a successor.
	List(ctx context.Context, pool string) (*Answer, error)
	// Apply returns when the order is taken, not when the machines serve. An
	// error means that nothing is known: the same order with the same key
	// follows after a while.
	Apply(ctx context.Context, o *Order) (*Answer, error)
}
