package wasm

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"
)

// Tracer calls a plugin on a separate instance and reports how the guest changed its
// memory. It is for checks of plugins, not for placement: it is slow, counts nothing
// and ignores quarantine. One caller at a time.
type Tracer struct {
	p  *Plugin
	in *instance
}

// Trace is the record of one call.
type Trace struct {
	Result []uint32      // scores (bits), drops, or counts followed by indexes
	Terms  []uint32      // bits, term by term; nil unless FlagExplain was set
	Units  int64         // fuel
	Budget int64         // fuel a call of this size may use
	Took   time.Duration // processor time

	// Overwritten is the offset in the batch of the first byte outside the
	// result and the terms that the guest changed, -1 if there is none.
	Overwritten int
}

// tracing is the state of an instance during a Tracer's call.
type tracing struct {
	poison        bool
	l             layout
	before, after []byte
	units, budget int64
	took          time.Duration
}

// NewTracer creates an instance for checks. The caller must close it.
func (p *Plugin) NewTracer(ctx context.Context) (*Tracer, error) {
	if p.hot == nil {
		return nil, ErrNoRole
	}
	in, err := p.instantiate(ctx, p.hot)
	if err != nil {
		return nil, err
	}
	return &Tracer{p, in}, nil
}

// Close frees the instance.
func (t *Tracer) Close() { t.in.close() }

// MemoryBytes returns the size of the instance's memory.
func (t *Tracer) MemoryBytes() uint32 { return t.in.mem.Size() }

// MemoryLimit returns the most that the instance's memory may grow to.
func (t *Tracer) MemoryLimit() uint32 { return uint32(len(t.in.own.all)) }

// Call calls a hot role. With poison the elements of the columns behind n are
// NaN: a guest must not read them. Errors: ErrNoRole, ErrAbstain, *Fault.
func (t *Tracer) Call(r Role, b *Batch, poison bool) (*Trace, error) {
	if !r.hot() || !t.p.Has(r) {
		return nil, ErrNoRole
	}
	tr := &tracing{poison: poison}
	t.in.trace = tr
	defer func() { t.in.trace = nil }()
	out := &Trace{Overwritten: -1}
	err := t.call(r, b, out)
	out.Units, out.Budget, out.Took = tr.units, tr.budget, tr.took
	if f, ok := errors.AsType[*Fault](err); ok {
		f.Role = r.String()
	}
	if err != nil {
		return nil, err
	}
	out.Overwritten = tr.overwritten()
	return out, nil
}

func (t *Tracer) call(r Role, b *Batch, out *Trace) error {
	s := t.p.specs[r]
	switch r {
	case Filter:
		out.Result = make([]uint32, b.N)
		return t.p.filter(t.in, s, b, out.Result)
	case Score:
		scores := make([]float32, b.N)
		var terms []float32
		if b.Flags&1 != 0 {
			terms = make([]float32, int(s.nterms)*b.N)
		}
		err := t.p.score(t.in, s, b, scores, terms)
		out.Result, out.Terms = bitsOf(scores), bitsOf(terms)
		return err
	default:
		o := SmokeOrder(b)
		err := t.p.pick(t.in, s, b, o)
		out.Result = append(o.Count, o.Index...)
		return err
	}
}

// traced runs a role with copies of the batch before and after.
func (p *Plugin) traced(in *instance, r Role, n int, budget int64) error {
	tr := in.trace
	v := in.view(tr.l.total)
	if tr.poison {
		for k := range tr.l.ncols {
			at := tr.l.cols + k*tr.l.stride*4
			fill(words(v[at : at+tr.l.stride*4])[n:], math.Float32bits(float32(math.NaN())))
		}
	}
	tr.before = bytes.Clone(v)
	took, err := in.processorTime(r, budget)
	tr.units, tr.budget, tr.took = in.used(), budget, took
	if err != nil {
		return err
	}
	tr.after = bytes.Clone(v)
	return nil
}

func (tr *tracing) overwritten() int {
	for i := range min(int(tr.l.out), len(tr.before)) {
		if tr.before[i] != tr.after[i] {
			return i
		}
	}
	return -1
}
