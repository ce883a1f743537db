// Package metrics reports numbers of a plugin as metrics of the host. A plugin
// that imports it must be granted kvasir:metrics/1. Names are a-z, 0-9 and _,
// at most 64 of them.
package metrics

import kvasir "github.com/kvasir-router/kvasir/sdk/go"

func init() { kvasir.Import("kvasir:metrics/1") }

// Add adds to a counter.
func Add(name string, delta float64) { add(name, delta) }

// Set sets a gauge.
func Set(name string, value float64) { set(name, value) }
