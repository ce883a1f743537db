// Package jinja compiles the part of Jinja2 that chat templates use and renders
// it as Python's Jinja2 3.1 does when configured as Hugging Face transformers
// configures it: sandboxed, immutable, trim_blocks and lstrip_blocks on, loop
// controls, the generation tag, tojson without HTML escapes.
//
// A template becomes closures. A long string of a request is carried as a span
// of an immutable [Text] and is never copied by rendering: trim, split, slices
// and concatenation keep spans, so a render costs by the number of messages, not
// by their size. What a template asks about a whole Text (contains, length,
// replace) and the JSON of a request's object are pure functions of immutable
// bytes and are kept with them.
//
// What the package does not know is refused by name: unknown syntax when the
// template is compiled, an unknown filter, test or method when a render reaches
// it ([UnsupportedError]). A render is bounded in steps, bytes and depth.
package jinja

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a render that passed a bound of [Options].
var (
	ErrSteps = errors.New("jinja: render exceeds its steps")
	ErrBytes = errors.New("jinja: render exceeds its bytes")
	ErrDepth = errors.New("jinja: nested too deeply")
)

// SyntaxError is returned by Compile for a template that Jinja2 would not
// compile either.
type SyntaxError struct {
	Offset int    // byte offset in the source with its line ends made \n, -1 if unknown
	Fact   string // what is wrong there
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("jinja: offset %d: %s", e.Offset, e.Fact)
}

// UnsupportedError names a part of Jinja2 that this package does not have.
// Compile returns it for syntax, Render for a filter, test or method.
type UnsupportedError struct {
	What string // such as `filter "xmlattr"`
}

func (e *UnsupportedError) Error() string { return "jinja: " + e.What + " is not supported" }

// RaisedError is returned by Render when the template called raise_exception:
// it refuses the conversation. Error does not show Message, which may quote the
// conversation.
type RaisedError struct {
	Message string // what the template said
}

func (e *RaisedError) Error() string { return "jinja: the template refuses the conversation" }

// RuntimeError is returned by Render where Python would raise another
// exception: an undefined value is used, types do not fit, an index is missing.
type RuntimeError struct {
	Fact string // holds names of the template, never text of the conversation
}

func (e *RuntimeError) Error() string { return "jinja: " + e.Fact }

// Options bound renders and give them values.
type Options struct {
	// MaxSteps bounds loop rounds, macro calls and values made by range. The
	// default, 4 Mi, is 50 times what the costliest known template needs for a
	// conversation of 400 messages (a loop over all messages for each: 160,000
	// rounds of some steps each) and ends a hostile one within a second.
	MaxSteps int
	// MaxBytes bounds the bytes that a render reads or copies; spans that are
	// passed on count nothing, slow reading counts several times. The default, 256 MiB, is 25 passes over a 10 MB
	// conversation and ends a template that walks a string by index, which is
	// quadratic, within a second or two.
	MaxBytes int64
	// MaxDepth bounds nested macro calls. The default, 200, is about where
	// Python's recursion limit of 1,000 frames ends it.
	MaxDepth int
	// Globals are values that every render sees unless its variables hide
	// them. Not modified, and not to be modified after Compile.
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

// Template is a compiled template. It is immutable: any number of goroutines
// may render it at once.
type Template struct {
	body   []stmtFunc
	slots  int            // variables of the outermost frame
	inputs []string       // names looked up outside the template
	index  map[string]int // position in inputs
	opt    Options
	parts  bool
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
	return t, nil
}

// Inputs returns every name that the template may look up outside itself, in
// order of first use: its variables, globals and functions. The caller must not
// modify it.
func (t *Template) Inputs() []string { return t.inputs }

// LoopsOverContent tells whether the template loops over the content of a
// message, as vLLM finds out whether a template takes content as a list of
// parts ("openai") or as text ("string"); see vllm/renderers/hf.py of 0.32,
// _iter_nodes_assign_content_item.
func (t *Template) LoopsOverContent() bool { return t.parts }

// Render renders the template with vars into out, which it does not reset. now
// is what strftime_now tells, in its location. The values of vars may be shared
// with other renders. Errors: *RaisedError, *RuntimeError, *UnsupportedError,
// ErrSteps, ErrBytes, ErrDepth; out then holds what came before.
func (t *Template) Render(vars map[string]Value, now time.Time, out *Output) (err error) {
	r := &run{out: out, vars: make([]Value, len(t.inputs)), now: now, steps: t.opt.MaxSteps, bytes: t.opt.MaxBytes, maxDepth: t.opt.MaxDepth}
	for i, n := range t.inputs {
		if v, ok := vars[n]; ok {
			r.vars[i] = v
		} else if v, ok := t.opt.Globals[n]; ok {
			r.vars[i] = v
		} else if v, ok := builtins[n]; ok {
			r.vars[i] = v
		} else {
			r.vars[i] = Value{k: kindUndefined, s: n}
		}
	}
	defer catch(&err)
	exec(t.body, &frame{vars: make([]Value, t.slots), r: r})
	return nil
}

// thrown carries an error from deep inside a closure to Compile or Render. A
// template is an expression tree of closures that return values; carrying an
// error beside each would double the work of every node for a path that is
// hardly ever taken (text/template does the same).
type thrown struct{ err error }

func throw(err error) { panic(thrown{err}) }

// fail throws a RuntimeError.
func fail(format string, a ...any) { throw(&RuntimeError{Fact: fmt.Sprintf(format, a...)}) }

// unsupported throws an UnsupportedError.
func unsupported(format string, a ...any) { throw(&UnsupportedError{What: fmt.Sprintf(format, a...)}) }

// catch turns what was thrown into *err and lets other panics pass.
func catch(err *error) {
	if x := recover(); x != nil {
		t, ok := x.(thrown)
		if !ok {
			panic(x)
		}
		*err = t.err
	}
}
