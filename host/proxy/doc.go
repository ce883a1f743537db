// Package proxy is the data path: it serves clients, has a [Router] place each
// request, forwards the original bytes of its body, streams the answer back and
// reports the outcome.
//
// fasthttp parses what clients send. The code for the connections to engines is the
// package's own, because every wait there must end when the client leaves and writes
// must not copy. One goroutine, fasthttp's of the client
// connection, drives a request from its first byte to its last.
//
// # Guarantees
//
//   - An engine sees exactly one well-formed request with one Content-Length,
//     never a client's credential, cookie or routing header.
//   - When a client leaves, the engine's connection is closed at once, before the
//     first byte of an answer as well as between the events of a stream.
//   - A request is sent to another engine only if no byte of an answer came.
//   - A stream that an engine did not finish is never made to look finished.
//   - Bytes of a stream are passed on as they come and unchanged, except for the
//     usage event that the router requested for itself.
package proxy
