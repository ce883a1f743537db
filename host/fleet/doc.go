// Package fleet keeps the endpoints of an [endpoint.Store], and the watchers of
// their engines, in step with the configuration, with discovery and with the
// machines that drivers make.
//
// An endpoint is identified by its pool and its address. Everything else about
// it (labels, price, credentials, event sockets, dialect, …) is an attribute that
// changes in place: the endpoint keeps its slot, epoch, readiness, circuit
// breaker, requests in flight and, as long as its blocks keep their names, its
// part of the block index.
//
// Changes of the configuration come in two steps. [NewPlan] reports everything
// that can be refused and changes nothing; [Fleet.Apply] puts a plan in force
// and cannot fail.
package fleet
