// Package jinja compiles the part of Jinja2 that chat templates use and renders
// it as Python's Jinja2 3.1 does when configured as Hugging Face transformers
// configures it: sandboxed, immutable, trim_blocks and lstrip_blocks on, loop
// controls, the generation tag, tojson without HTML escapes.
//
// A template is compiled to closures. A long string of a request is passed as a
// span of an immutable [Text], and rendering never copies it: trim, split, slices
// and concatenation preserve spans, so the cost of a render depends on the number
// of messages, not on their size. The results of operations on a whole Text
// (contains, length, replace) and the JSON of a request's object are pure
// functions of immutable bytes and are cached with them.
//
// The package rejects by name what it does not support: unknown syntax when the
// template is compiled, an unknown filter, test or method when a render reaches
// it ([UnsupportedError]). A render is bounded in steps, bytes and depth.
package jinja

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Errors of a render that exceeds a limit of [Options].
var (
	ErrSteps = errors.New("jinja: render exceeds MaxSteps")
	ErrBytes = errors.New("jinja: render exceeds MaxBytes")
	ErrDepth = errors.New("jinja: nested too deeply")
)

// SyntaxError is returned by Compile for a template that Jinja2 would not
// compile either.
type SyntaxError struct {
	Offset int    // byte offset in the source after line ends are converted to \n, -1 if unknown
	Fact   string // what is wrong at Offset
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("jinja: offset %d: %s", e.Offset, e.Fact)
}

// UnsupportedError names a part of Jinja2 that this package does not support.
// Compile returns it for syntax, Render for a filter, test or method.
type UnsupportedError struct {
	What string // such as `filter "xmlattr"`
}

func (e *UnsupportedError) Error() string { return "jinja: " + e.What + " is not supported" }

// RaisedError is returned by Render if the template calls raise_exception to
// reject the conversation. Error does not include Message, which may quote the
// conversation.
type RaisedError struct {
	Message string // argument of raise_exception
}

func (e *RaisedError) Error() string { return "jinja: the template refuses the conversation" }

// RuntimeError is returned by Render if Python would raise another exception: an
// undefined value is used, types do not match, an index is missing.
type RuntimeError struct {
	Fact string // may contain names of the template, never text of the conversation
}

func (e *RuntimeError) Error() string { return "jinja: " + e.Fact }

// Options limits renders and supplies global values.
type Options struct {
	// MaxSteps limits loop iterations, macro calls and values created by range.
	// The default, 4 Mi, is 50 times what the most expensive known template needs
	// for a conversation of 400 messages (a loop over all messages for each message:
	// 160,000 iterations of some steps each), and stops a hostile template within
	// a second.
	MaxSteps int
	// MaxBytes limits the bytes that a render reads or copies. Spans that are
	// passed on do not count; slow reading counts several times. The default,
	// 256 MiB, is 25 passes over a 10 MB conversation, and stops a template that
	// walks a string by index, which takes quadratic time, within a second or two.
	MaxBytes int64
	// MaxDepth limits nested macro calls. The default, 200, is about the depth
	// at which Python's recursion limit of 1,000 frames stops a render.
	MaxDepth int
	// Globals are values that every render sees unless its variables shadow
	// them. Compile does not modify them, and the caller must not modify them
	// after Compile.
	Globals map[string]Value
}

func (o Options) withDefaults() Options {
	if o.MaxSteps == 0 {
		o.MaxSteps = 4 << 20
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 256 << 20
	}
	if o.MaxDepth == 0 {
		o.MaxDepth = 200
	}
	return o
}

// Template is a compiled template. It is immutable and safe for concurrent
// rendering.
type Template struct {
	body   []stmtFunc
	slots  int            // variables of the outermost frame
	inputs []string       // names looked up outside the template
	index  map[string]int // position in inputs
	base   []Value        // values of inputs that a render does not set
	opt    Options
	parts  bool
	runs   sync.Pool // of *run, for reuse
}

// Compile compiles src. It returns a *SyntaxError, an *UnsupportedError or
// ErrDepth.
func Compile(src string, opt Options) (t *Template, err error) {
	defer catch(&err)
	p := &parser{toks: lex(src)}
	body, _ := p.body()
	t = &Template{index: map[string]int{}, opt: opt.withDefaults(), parts: loopsOverContent(body)}
	f := &frameLayout{}
	c := &compiler{t: t}
	t.body = c.stmts(body, newScope(nil, f, body))
	t.slots = f.n
	t.base = make([]Value, len(t.inputs))
	for i, n := range t.inputs {
		if v, ok := t.opt.Globals[n]; ok {
			t.base[i] = v
		} else if v, ok := builtins[n]; ok {
			t.base[i] = v
		} else {
			t.base[i] = Value{k: kindUndefined, s: n}
		}
	}
	return t, nil
}

// Inputs returns every name that the template may look up outside itself, in
// order of first use: its variables, globals and functions. The caller must not
// modify the result.
func (t *Template) Inputs() []string { return t.inputs }

// LoopsOverContent reports whether the template loops over the content of a
// message. It follows vLLM, which thus determines whether a template takes
// content as a list of parts ("openai") or as text ("string"); see
// vllm/renderers/hf.py of 0.32, _iter_nodes_assign_content_item.
func (t *Template) LoopsOverContent() bool { return t.parts }

// Render renders the template with vars and appends to out, which it does not
// reset. strftime_now formats now, in its location. Concurrent renders may share
// the values of vars. Errors: *RaisedError, *RuntimeError, *UnsupportedError,
// ErrSteps, ErrBytes, ErrDepth; out then holds the text rendered before the error.
func (t *Template) Render(vars map[string]Value, now time.Time, out *Output) (err error) {
	r := t.newRun(out, now)
	defer t.recycle(r)
	copy(r.vars, t.base)
	for i, n := range t.inputs {
		if v, ok := vars[n]; ok {
			r.vars[i] = v
		}
	}
	defer catch(&err)
	exec(t.body, &r.body)
	return nil
}

// newRun returns the state of a render, without values.
func (t *Template) newRun(out *Output, now time.Time) *run {
	r, _ := t.runs.Get().(*run)
	if r == nil {
		r = &run{vars: make([]Value, len(t.inputs))}
		r.body = frame{vars: make([]Value, t.slots), r: r}
	}
	r.out, r.now, r.steps, r.bytes, r.maxDepth = out, now, t.opt.MaxSteps, t.opt.MaxBytes, t.opt.MaxDepth
	return r
}

// recycle keeps the memory of a finished render for another one. Nothing that a
// render returns refers to it.
func (t *Template) recycle(r *run) {
	clear(r.vars)
	clear(r.body.vars)
	for _, l := range r.loops[:r.looped] {
		*l = loop{}
	}
	*r = run{vars: r.vars, body: r.body, loops: r.loops}
	t.runs.Put(r)
}

// thrown carries an error from deep inside a closure to Compile or Render. A
// template is an expression tree of closures that return values. Returning an
// error with each value would double the work of every node for a path that is
// rarely taken (text/template does the same).
type thrown struct{ err error }

func throw(err error) { panic(thrown{err}) }

// fail throws a RuntimeError.
func fail(format string, a ...any) { throw(&RuntimeError{Fact: fmt.Sprintf(format, a...)}) }

// unsupported throws an UnsupportedError.
func unsupported(format string, a ...any) { throw(&UnsupportedError{What: fmt.Sprintf(format, a...)}) }

// catch stores a thrown error in *err and propagates other panics.
func catch(err *error) {
	if x := recover(); x != nil {
		t, ok := x.(thrown)
		if !ok {
			panic(x)
		}
		*err = t.err
	}
}
