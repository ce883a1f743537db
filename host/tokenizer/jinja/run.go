package jinja

import "time"

// run is the state of one render.
type run struct {
	out      *Output
	free     []*Output // outputs of finished captures, for the next
	vars     []Value   // values of Template.inputs
	now      time.Time
	steps    int   // left
	bytes    int64 // left
	depth    int   // macros entered
	maxDepth int
}

// step counts a loop round or a call.
func (r *run) step() {
	if r.steps--; r.steps < 0 {
		throw(ErrSteps)
	}
}

// charge counts n bytes read or copied.
func (r *run) charge(n int) {
	if r.bytes -= int64(n); r.bytes < 0 {
		throw(ErrBytes)
	}
}

// valueBytes is what a Value takes in a list; making lists is charged by it.
const valueBytes = 48

func (r *run) chargeValues(n int) { r.charge(n * valueBytes) }

// capture redirects output until release.
func (r *run) capture() (outer *Output) {
	outer = r.out
	if n := len(r.free); n > 0 {
		r.out = r.free[n-1]
		r.free = r.free[:n-1]
		r.out.Reset()
	} else {
		r.out = &Output{}
	}
	return outer
}

// release ends a capture and returns what was written.
func (r *run) release(outer *Output) Value {
	v := r.out.value(r)
	r.free = append(r.free, r.out)
	r.out = outer
	return v
}

// frame holds the variables of the template's body or of one macro call. Macros
// reach those of where they were defined through up.
type frame struct {
	vars []Value
	up   *frame
	r    *run
}

type (
	exprFunc func(*frame) Value
	condFunc func(*frame) bool
	stmtFunc func(*frame) control
)

// control is how a statement ended.
type control uint8

const (
	proceed control = iota
	breaks
	continues
)

func exec(body []stmtFunc, f *frame) control {
	for _, s := range body {
		if c := s(f); c != proceed {
			return c
		}
	}
	return proceed
}
