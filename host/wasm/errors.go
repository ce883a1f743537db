package wasm

import (
	"errors"
	"fmt"
)

// Errors of a call that are not faults of the guest.
var (
	ErrAbstain     = errors.New("wasm: the plugin abstains")                // any role
	ErrQuarantined = errors.New("wasm: the plugin is quarantined")          // after repeated faults
	ErrBusy        = errors.New("wasm: no instance is free")                // more callers than instances, or faults
	ErrNoRole      = errors.New("wasm: the plugin does not have that role") // see Manifest.Roles
	ErrUnsupported = errors.New("wasm: the plugin does not support this")   // an experimental role
	ErrClosed      = errors.New("wasm: the plugin is closed")
)

// Reason is a kind of fault, as named in metrics and explain.
type Reason string

const (
	ReasonTrap      Reason = "trap"          // unreachable, out of bounds, division by zero, …
	ReasonFuel      Reason = "fuel"          // the budget was used up
	ReasonTime      Reason = "time"          // calls take more processor time than their ceiling
	ReasonStack     Reason = "stack"         // too deep a recursion
	ReasonStatus    Reason = "status"        // the guest returned a status ≥ 2
	ReasonUnwritten Reason = "unwritten"     // a result was left as it arrived
	ReasonNotFinite Reason = "not_finite"    // a score was NaN or infinite
	ReasonIndex     Reason = "index"         // an index or a drop reason out of range
	ReasonAlloc     Reason = "alloc"         // kvasir_alloc: zero, misaligned, outside memory
	ReasonForbidden Reason = "forbidden"     // a host call that the role may not make
	ReasonOverwrite Reason = "overwrite"     // the guest wrote over its input (seen by checks only)
	ReasonChanged   Reason = "not_the_same"  // an instance disagrees with the others
	ReasonLoad      Reason = "load"          // the load checks
	ReasonTooMany   Reason = "too_many_rows" // the host's batch has more rows than the ABI allows
)

// Fault is a fault of a guest. The instance in which it happened is closed.
type Fault struct {
	Plugin string
	Role   string
	Reason Reason
	Detail string // for the operator; may hold text of the guest
}

func (f *Fault) Error() string {
	return fmt.Sprintf("wasm: plugin %q: %s: %s: %s", f.Plugin, f.Role, f.Reason, f.Detail)
}

// LoadError is the reason why a module was refused, with the step of loading.
type LoadError struct {
	// module, exports, imports, rewrite, compile, start, abi, manifest, roles, columns, grants, configure, smoke, time,
	// check
	Step string
	Err  error
}

func (e *LoadError) Error() string { return "wasm: " + e.Step + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *LoadError) Unwrap() error { return e.Err }

func loadErr(step string, err error) error {
	if err == nil {
		return nil
	}
	return &LoadError{step, err}
}
