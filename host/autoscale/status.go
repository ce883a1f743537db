package autoscale

import "time"

// Verbs of an Action.
const (
	VerbOrder    = "order"    // machines were ordered
	VerbCancel   = "cancel"   // orders were cancelled
	VerbDrain    = "drain"    // an endpoint begins to drain
	VerbUndrain  = "undrain"  // a draining endpoint serves again
	VerbRemove   = "remove"   // a drained endpoint was removed
	VerbExpire   = "expire"   // ordered machines were not ready in time
	VerbDriver   = "driver"   // the driver failed, or its answer was refused
	VerbOverride = "override" // the plugin failed, or its answer was refused
)

// Action is something that the controller did, would have done (dry run), or
// failed to do; for operators, the audit log and plugins.
type Action struct {
	Time   time.Time `json:"time"`
	Pool   string    `json:"pool"`
	Verb   string    `json:"verb"`
	N      int       `json:"n,omitempty"`
	IDs    []string  `json:"ids,omitempty"`
	Key    string    `json:"key,omitempty"`
	Reason string    `json:"reason"`
	DryRun bool      `json:"dry_run,omitempty"`
}

// maxActions is how many actions a status holds.
const maxActions = 20

// Status is what `kvasir autoscale` shows of one group of pools.
type Status struct {
	Time     time.Time    `json:"time"`
	Signal   Signal       `json:"signal"`
	Proposal Proposal     `json:"proposal"`
	Override *Override    `json:"override,omitempty"` // followed, or only compared (Shadow)
	Shadow   bool         `json:"shadow,omitempty"`
	Fault    string       `json:"override_fault,omitempty"`
	Faults   int          `json:"override_faults,omitempty"` // since the start
	Desired  int          `json:"desired"`                   // the size that was decided
	Capacity string       `json:"capacity_state"`
	DryRun   bool         `json:"dry_run"`
	Pools    []PoolStatus `json:"pools"`
	Actions  []Action     `json:"actions"`
}

// PoolStatus is one pool of the group.
type PoolStatus struct {
	Name         string     `json:"name"`
	Min          int        `json:"min"`
	Max          int        `json:"max"`
	Ready        int        `json:"ready"`
	Pending      int        `json:"pending"`
	Draining     int        `json:"draining"`
	Failing      int        `json:"failing"`
	NeverCame    int        `json:"never_came"` // machines that were ordered and never became ready
	DriverErrors int        `json:"driver_errors"`
	BlockedUntil *time.Time `json:"blocked_until,omitempty"`
	DriverError  string     `json:"driver_error,omitempty"`
	ColdStart    string     `json:"cold_start"` // p90, measured or assumed
	Machines     []NodeView `json:"machines"`
}

// Values of Status.Capacity, which policies see as capacity_state.
const (
	CapacityOK     = "ok"
	CapacityScarce = "scarce" // machines are needed and cannot be had
	CapacityNone   = "none"   // no endpoint serves
)
