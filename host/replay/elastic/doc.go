// Package elastic simulates a fleet of engines in virtual time: hours of load take
// seconds, and the same load with the same seed gives the same result. It runs the
// real autoscaler (package autoscale) on recorded workloads with cold starts, and the
// controllers that it is compared with.
//
// An engine is a batch that runs one step after another. The time of a step is
//
//	c0 + max(Tw, a·tokens) + b·Σ context + q·Σ chunk·(start + chunk/2)
//
// with constants fitted to published kernel profiles (see [H100x8B]); it
// schedules decodes first, then chunks of prompts in order of arrival, and evicts
// computed blocks when it needs room, least recently used first.
package elastic
