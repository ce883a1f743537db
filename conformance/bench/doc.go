// Package bench measures what the router costs: CPU per request and per
// streamed event, beside nginx in the same rounds. It runs under the build tag
// bench (make bench); every figure is a ratio of one run on one machine.
package bench
