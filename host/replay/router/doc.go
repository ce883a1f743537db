// Package router has the routers of virtual time: the product's own scheduler
// ([New]) and implementations of the policies that it is compared with ([Peer]).
//
// All of them know the same: the product's index of cached blocks fed by the
// engines' events, its predictions of what was just sent, its counters of requests
// in flight, and the figures of the last scrape. They differ only in what they make of
// it. The policies of others follow their documents and sources; each is this
// project's implementation, not the product whose name it has.
package router
