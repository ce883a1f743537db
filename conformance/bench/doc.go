// Package bench measures the router's cost, CPU time per request and per streamed
// event, and compares it with nginx in the same rounds. It needs the build tag bench
// (make bench). Every figure is a ratio from one run on one machine.
package bench
