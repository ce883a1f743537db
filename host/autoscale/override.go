package autoscale

import (
	"context"
	"time"
)

// Samples is how many ticks of history a [View] holds.
const Samples = 60

// View is what an override sees. It is built for one call and owned by the callee.
// Plugins get it as abi/SPEC.md lays it out.
type View struct {
	NowMs    int64      `json:"now_ms"`
	Pools    []PoolView `json:"pools"`
	History  []Sample   `json:"history"` // oldest first, at most Samples
	Proposal Proposal   `json:"proposal"`
	Actions  []Action   `json:"actions"` // the last 20, oldest first
}

// PoolView is one pool of the group, in order of preference.
type PoolView struct {
	Name     string     `json:"name"`
	Min      int        `json:"min"`
	Max      int        `json:"max"`
	Pending  int        `json:"pending"`
	Blocked  bool       `json:"blocked"` // the driver failed; no further orders for a while
	ColdMs   int64      `json:"cold_start_ms"`
	Price    float64    `json:"price"`
	Spot     bool       `json:"spot"`
	Machines []NodeView `json:"machines"`
}

// NodeView is one endpoint.
type NodeView struct {
	ID       string  `json:"id"`
	Ready    bool    `json:"ready"`
	Failing  bool    `json:"failing"`
	Drain    string  `json:"drain"` // serving, no_sessions, no_requests
	AgeMs    int64   `json:"age_ms"`
	InFlight int     `json:"inflight"`
	OldestMs int64   `json:"oldest_ms"`
	Sessions int     `json:"sessions"`
	Heat     float64 `json:"heat"`
}

// Sample is the signal of one tick.
type Sample struct {
	AtMs     int64   `json:"at_ms"`
	Rate     float64 `json:"rate"`    // offered work, endpoint-seconds per second
	Backlog  float64 `json:"backlog"` // endpoint-seconds
	QueueMs  int64   `json:"queue_ms"`
	InFlight int     `json:"inflight"`
	KVUsage  float64 `json:"kv_usage"`
	Ready    int     `json:"ready"`
	Pending  int     `json:"pending"`
	Desired  int     `json:"desired"`
}

// Override replaces the built-in proposal. The controller still enforces bounds and
// steps, and drains and orders by itself.
type Override struct {
	Desired int            `json:"desired"`
	Pools   map[string]int `json:"pools,omitempty"`   // sizes of single pools; the rest is filled by preference
	Victims []string       `json:"victims,omitempty"` // to be removed first when the size goes down
	HoldMs  int64          `json:"hold_ms,omitempty"` // how long the size does not change
	TTLMs   int64          `json:"ttl_ms,omitempty"`  // how long it stays valid when further calls abstain
	Reason  string         `json:"reason,omitempty"`
	By      string         `json:"by,omitempty"` // name, version and digest of the plugin
}

// Overrider proposes sizes instead of the built-in loop. (nil, nil) abstains. An
// error, or an invalid proposal, is a fault: the built-in proposal is used.
type Overrider interface {
	Propose(ctx context.Context, v *View) (*Override, error)
}

// activeOverride is the last override, as long as it is valid.
type activeOverride struct {
	o     *Override
	until time.Time
	hold  time.Time
}
