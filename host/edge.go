package host

import "github.com/kvasir-router/kvasir/host/route"

// routeRules are the rules in force as requests are routed by them.
type routeRules struct{ h *Host }

// Acquire implements route.Rules.
func (r routeRules) Acquire() route.Lease {
	l := r.h.rules.Acquire()
	rev := l.Value()
	return route.Lease{Scheduler: rev.Scheduler, Edge: rev.Edge, LogPolicy: rev.LogPolicy, Releaser: l}
}
