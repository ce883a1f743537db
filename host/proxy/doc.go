// Package proxy is the data path: it serves clients, asks a [Router] where each
// request goes, forwards the original bytes of its body, streams the answer back
// and reports what happened.
//
// fasthttp parses what clients send; the side towards the engines is the
// package's own, since every wait there must end the moment the client leaves
// and every write must be free of copies. One goroutine, fasthttp's of the client
// connection, drives a request from its first byte to its last.
//
// # Guarantees
//
//   - An engine sees exactly one well-formed request with one Content-Length,
//     never a client's credential, cookie or routing header.
//   - When a client leaves, the engine's connection is closed at once, before the
//     first byte of an answer as well as in a silent stretch of a stream.
//   - A request is sent to another engine only while no byte of an answer came.
//   - A stream that an engine did not finish is never made to look finished.
//   - Bytes of a stream are passed on as they come and unchanged, except for the
//     one usage event that the router itself asked for.
package proxy
