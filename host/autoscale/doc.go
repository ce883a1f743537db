// Package autoscale decides how many endpoints a pool needs, and calls drivers
// that start and stop them.
//
// A [Loop] turns measurements of a pool into a proposed size; it is a pure function
// of its history. A [Controller] acts on proposals: it counts machines that were
// ordered and do not serve yet, cordons and drains endpoints that are to be removed,
// calls a [Driver], and enforces the bounds, whatever proposed the size. Time is
// always a parameter, so that a test runs hours of scaling within a second.
//
// The signal is a rate of work, not a level: LLM endpoints can be full at 16 % of
// their KV memory and idle at 90 % of it, and the right number of concurrent
// requests differs by a factor of four between chat and agents. Work is counted in
// endpoint-seconds: the seconds that one endpoint would be busy with it.
package autoscale
