// Package autoscale decides how many endpoints a pool needs, and has them made
// and unmade.
//
// A [Loop] turns what was measured of a pool into a wished size; it is a pure
// function of its history. A [Controller] carries wishes out: it counts what was
// ordered and has not come, cordons and drains what is to go, talks to a
// [Driver], and keeps the bounds whoever proposed the size. Time is always a
// parameter, so that hours of scaling run in a test within a second.
//
// The signal is a rate of work, not a stock: endpoints of LLMs are full at 16 %
// of their KV memory and idle at 90 % of it, and the right number of requests at
// once differs by a factor of four between chat and agents. Work is counted in
// endpoint-seconds: the seconds one endpoint would be busy with it.
package autoscale
