// Package elastic simulates a fleet of engines in virtual time: hours of load take
// seconds, and the same load with the same seed gives the same result. It runs the
// real autoscaler (package autoscale) on recorded workloads with cold starts, and the
// controllers that it is compared with.
//
// An engine is a [simengine.Model], as in package virtual.
package elastic
