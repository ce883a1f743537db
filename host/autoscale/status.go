package autoscale

import "time"

// Verbs of an Action.
const (
	VerbOrder    = "order"    // machines were ordered
	VerbCancel   = "cancel"   // ordered machines were given up
	VerbDrain    = "drain"    // an endpoint begins to drain
	VerbUndrain  = "undrain"  // a draining endpoint serves again
	VerbRemove   = "remove"   // a drained endpoint is given back
	VerbExpire   = "expire"   // ordered machines did not come in time
	VerbDriver   = "driver"   // the driver failed or was not believed
	VerbOverride = "override" // the plugin was not heard
)

// Action is one thing the controller did, would have done (dry run), or met
// with; for explain, the audit log and plugins.
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

// keptActions is how many actions a status holds.
const keptActions = 20

// Status is what `kvasir autoscale` shows of one group of pools.
type Status struct {
	Time     time.Time    `json:"time"`
	Signal   Signal       `json:"signal"`
	Proposal Proposal     `json:"proposal"`
	Override *Override    `json:"override,omitempty"` // taken, or only compared (Shadow)
	Shadow   bool         `json:"shadow,omitempty"`
	Fault    string       `json:"override_fault,omitempty"`
	Faults   int          `json:"override_faults,omitempty"` // so far
	Desired  int          `json:"desired"`                   // what was carried out
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
	NeverCame    int        `json:"never_came"` // ordered machines given up so far
	DriverErrors int        `json:"driver_errors"`
	BlockedUntil *time.Time `json:"blocked_until,omitempty"`
	DriverError  string     `json:"driver_error,omitempty"`
	ColdStart    string     `json:"cold_start"` // p90, measured or assumed
	Machines     []NodeView `json:"machines"`
}

// Words of Status.Capacity, which policies see as capacity_state.
const (
	CapacityOK     = "ok"
	CapacityScarce = "scarce" // machines are wanted that did not come
	CapacityNone   = "none"   // nothing serves
)
