package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/kvasir-router/kvasir/abi"
)

// Outcomes is a batch of requests that ended, in columns of [N]; nil columns
// take their default. Values must be finite.
type Outcomes struct {
	N         int
	NowMS     float64
	Endpoints []uint32 // [M] endpoint_id of the endpoints there are

	Columns [abi.NumOutcomeColumns][]float32 // by abi.Out…; u32 columns are in U32
	U32     [abi.NumOutcomeColumns][]uint32
}

// Observe passes outcomes to the plugin's pinned instance and publishes the columns
// that it returns. It may take long: call it off the request path. Errors: as Score.
// Concurrent calls wait for each other.
func (p *Plugin) Observe(o *Outcomes) error {
	return p.offPath(Observe, func(in *instance, s *spec) error { return p.observe(in, s, o) })
}

// Idle gives every free instance time for maintenance, one after the other. Call it
// off the request path. Errors: ErrNoRole, ErrQuarantined, ErrClosed and *Fault, the
// last one if there are several.
func (p *Plugin) Idle(now time.Time) error {
	if !p.Has(Idle) {
		return ErrNoRole
	}
	var last error
	if p.cold != nil {
		last = p.offPath(Idle, func(in *instance, _ *spec) error { return in.idle(now, coldBudget) })
	}
	if p.hot == nil {
		return last
	}
	if !p.breaker.allow() {
		return ErrQuarantined
	}
	budget := p.hot.start()
	for range p.pool.want {
		in, err := p.pool.get()
		if err != nil {
			break // all are out, or closed
		}
		if err := in.idle(now, budget); err != nil && !errors.Is(err, ErrAbstain) {
			p.pool.drop()
			last = p.fault(in, Idle, err)
			continue
		}
		p.pool.putLast(in)
	}
	return last
}

func (in *instance) idle(now time.Time, budget int64) error {
	in.setClock(float64(now.UnixMilli()), 0)
	if err := in.ensure(abi.IdleHeaderSize, budget); err != nil {
		return err
	}
	v := in.view(abi.IdleHeaderSize)
	binary.LittleEndian.PutUint32(v[abi.IdleSize:], abi.IdleHeaderSize)
	binary.LittleEndian.PutUint32(v[abi.IdleFuelHint:], uint32(min(budget, math.MaxUint32)))
	return in.run(Idle, budget)
}

// offPath runs f on the pinned instance.
func (p *Plugin) offPath(r Role, f func(*instance, *spec) error) error {
	if !p.Has(r) {
		return ErrNoRole
	}
	if !p.breaker.allow() {
		return ErrQuarantined
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	in := p.pinned
	if in == nil {
		p.stats.busy.Add(1)
		return ErrBusy
	}
	err := f(in, p.specs[r])
	switch {
	case err == nil || errors.Is(err, ErrAbstain) || errors.Is(err, ErrUnsupported):
		p.stats.observed.Add(1)
		return err
	default:
		p.pinned = nil
		return p.fault(in, r, err)
	}
}

// experiment runs f, a call of an experimental role, on the pinned instance.
func (p *Plugin) experiment(r Role, f func(*instance) error) error {
	err := p.offPath(r, func(in *instance, _ *spec) error { return f(in) })
	if err == nil {
		p.breaker.ok()
	}
	return err
}

func (p *Plugin) observe(in *instance, s *spec, o *Outcomes) error {
	if o.N > abi.MaxCandidates || len(o.Endpoints) > abi.MaxCandidates {
		return &Fault{Plugin: p.name, Reason: ReasonTooMany, Detail: fmt.Sprintf("%d outcomes, %d endpoints, at most %d",
			o.N, len(o.Endpoints), abi.MaxCandidates)}
	}
	m := uint32(len(o.Endpoints))
	k := uint32(abi.Stride(len(o.Endpoints)))
	l := place(uint32(o.N), uint32(len(s.outs)), 0, uint32(len(p.pubs))*k*4, 0)
	l.nslots, l.k = m, k
	l.terms = l.total
	l.total += k * 4
	in.setClock(o.NowMS, 0)
	if err := in.ensure(l.total, startSliced); err != nil {
		return err
	}
	v := in.view(l.total)
	writeHeader(v, &Batch{N: o.N, NowMS: o.NowMS, NSlots: m}, &l, 0, 0)
	for c, id := range s.outs {
		at := l.cols + uint32(c)*l.stride*4
		writeOutcome(words(v[at:at+l.stride*4]), o, id)
	}
	clear(v[l.req:l.out])
	fill(words(v[l.out:l.terms]), abi.UnwrittenScore)
	ids := words(v[l.terms:l.total])
	clear(ids[copy(ids, o.Endpoints):])
	if err := in.run(Observe, coldBudget); err != nil {
		return err
	}
	return p.publish(words(v[l.out:l.out+l.outSize]), k, o.Endpoints)
}

// writeOutcome fills a column: the N values, zeros up to the stride.
func writeOutcome(dst []uint32, o *Outcomes, id int) {
	clear(dst[o.N:])
	dst = dst[:o.N]
	switch {
	case id < 0:
		clear(dst)
	case o.U32[id] != nil:
		copy(dst, o.U32[id])
	case o.Columns[id] != nil:
		copy(dst, bitsOf(o.Columns[id]))
	case abi.OutcomeColumns[id].Type == abi.U32:
		fill(dst, uint32(abi.OutcomeColumns[id].Default))
	default:
		fill(dst, math.Float32bits(float32(abi.OutcomeColumns[id].Default)))
	}
}

// publish takes over the columns in out, all or none; NaN = unchanged.
func (p *Plugin) publish(out []uint32, k uint32, endpoints []uint32) error {
	for i, x := range out {
		if x&^(1<<31) == exponent {
			return &Fault{Plugin: p.name, Reason: ReasonNotFinite, Detail: fmt.Sprintf("published value %d is infinite", i)}
		}
	}
	for c, pub := range p.pubs {
		row := out[uint32(c)*k:]
		for i, id := range endpoints {
			if x := row[i]; x&exponent != exponent {
				pub.set(id, math.Float32frombits(x))
			}
		}
	}
	return nil
}
