// Package virtual is a fleet of engines in virtual time: hours of load pass in
// seconds, and the same load with the same seed comes out the same. It exists to
// drive the real autoscaler (package autoscale) through recorded workloads with
// cold starts, beside the controllers it is compared with.
//
// An engine is a batch that takes one step after another. The time of a step is
//
//	c0 + max(Tw, a·tokens) + b·Σ context + q·Σ chunk·(start + chunk/2)
//
// with constants fitted to published kernel profiles (see [H100x8B]); it
// schedules decodes first, then chunks of prompts in order of arrival, and keeps
// computed blocks until room is needed, least recently used first.
package virtual
