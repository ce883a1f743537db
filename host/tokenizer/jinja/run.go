package jinja

import "time"

// run is the state of one render.
type run struct {
	out      *Output
	free     []*Output // outputs of finished captures, for reuse
	vars     []Value   // values of Template.inputs
	now      time.Time
	steps    int   // left
	bytes    int64 // left
	depth    int   // macros entered
	maxDepth int
	body     frame   // of the template's body
	operand  Value   // of the comparison in progress, if it has no name
	loops    []*loop // for reuse by later renders, of which this one uses the first looped
	looped   int
}

// maxLoops limits the loops that a run keeps for reuse.
const maxLoops = 16

// newLoop returns a loop without state.
func (r *run) newLoop() *loop {
	if r.looped == len(r.loops) {
		if r.looped == maxLoops {
			return &loop{}
		}
		r.loops = append(r.loops, &loop{})
	}
	r.looped++
	return r.loops[r.looped-1]
}

// step counts a loop iteration or a call.
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

// valueBytes is the size of a Value in a list. Creating lists is charged by it.
const valueBytes = 48

func (r *run) chargeValues(n int) { r.charge(n * valueBytes) }

// capture redirects output until release is called.
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

// release ends a capture and returns the captured text.
func (r *run) release(outer *Output) Value {
	v := r.out.value(r)
	r.free = append(r.free, r.out)
	r.out = outer
	return v
}

// frame holds the variables of the template's body or of one macro call. Macros
// access the variables of the frame in which they were defined through up.
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

// control is the way in which a statement ended.
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
