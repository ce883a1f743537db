package wasm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/kvasir-router/kvasir/abi"
)

// sampleEvery is how many calls one is timed of: two readings of the clock
// cost twice an empty call.
const sampleEvery = 64

// begin acquires an instance for a hot role.
func (p *Plugin) begin(r Role, n int) (*instance, *spec, error) {
	s := p.specs[r]
	switch {
	case s == nil:
		return nil, nil, ErrNoRole
	case n > abi.MaxCandidates:
		return nil, nil, &Fault{p.name, r.String(), ReasonTooMany,
			fmt.Sprintf("%d candidates, at most %d", n, abi.MaxCandidates)}
	case !p.breaker.allow():
		return nil, nil, ErrQuarantined
	}
	in, err := p.pool.get()
	if err != nil {
		p.stats.busy.Add(1)
	}
	return in, s, err
}

// call runs the role with the arena as written and meters it.
func (p *Plugin) call(in *instance, r Role, n int) error {
	budget := p.budgets[r].of(n)
	if in.trace != nil {
		return p.traced(in, r, n, budget)
	}
	if in.clocked {
		var err error
		in.took, err = in.processorTime(r, budget)
		return err
	}
	if p.watch.due() {
		return p.timed(in, r, n, budget)
	}
	if in.uses%p.every == 0 {
		return p.sampled(in, r, n, budget)
	}
	err := in.run(r, budget)
	if used := in.used(); used > suspectLeast && used > p.budgets[r].suspicious(n) {
		p.watch.suspect()
	}
	return err
}

// finish returns the instance to the pool, or discards it after a fault, and counts
// the call.
func (p *Plugin) finish(in *instance, r Role, err error) error {
	switch {
	case err == nil:
		p.giveBack(in)
		p.stats.calls.Add(1)
		if p.breaker.ok() {
			p.rt.notify()
		}
		return nil
	case errors.Is(err, ErrAbstain):
		p.giveBack(in)
		p.stats.abstained.Add(1)
		return err
	}
	return p.fault(in, r, err)
}

// giveBack returns an instance, or its replacement, to the pool.
func (p *Plugin) giveBack(in *instance) {
	if in.uses%sampleEvery == 0 && !in.old {
		in.old = in.grown()
	}
	if in.old {
		in = p.swapGrown(in)
	}
	p.pool.put(in)
}

// Score has the candidates rated: scores is [b.N], higher is better. terms is
// nil or [len(Terms) * b.N], term by term, and filled with the parts of the
// scores (NaN = not given); asking for them does not change a score.
//
// Errors: ErrNoRole, ErrAbstain, ErrBusy, ErrQuarantined, ErrClosed, *Fault;
// scores are then undefined. It may be called concurrently.
func (p *Plugin) Score(b *Batch, scores, terms []float32) error {
	in, s, err := p.begin(Score, b.N)
	if err != nil {
		return err
	}
	return p.finish(in, Score, p.score(in, s, b, scores, terms))
}

func (p *Plugin) score(in *instance, s *spec, b *Batch, scores, terms []float32) error {
	n, flags, nterms := uint32(b.N), b.Flags&^abi.FlagExplain, uint32(0)
	if terms != nil && s.nterms > 0 {
		flags, nterms = flags|abi.FlagExplain, s.nterms
	}
	l := in.placeScore(s, n, nterms)
	l.nslots = max(b.NSlots, 1)
	v, err := p.write(in, b, s, l, flags, 0)
	if err != nil {
		return err
	}
	fillUnwrittenScores(words(v[l.out : l.out+l.stride*4]))
	if nterms > 0 {
		fillUnwrittenScores(words(v[l.terms:l.total]))
	}
	if err := p.call(in, Score, b.N); err != nil {
		return err
	}
	if !copyFinite(bitsOf(scores[:n]), words(v[l.out:l.out+n*4])) {
		return p.badScore(words(v[l.out : l.out+l.stride*4])[:n])
	}
	for k := range nterms {
		at := l.terms + k*l.stride*4
		copy(bitsOf(terms[k*n:(k+1)*n]), words(v[at:at+l.stride*4]))
	}
	return nil
}

// placeScore returns the layout of a batch of n for score: that of the call
// before where it is the same.
func (in *instance) placeScore(s *spec, n, nterms uint32) *layout {
	if l := &in.laid; l.stride == 0 || in.laidN != n || l.nterms != nterms {
		*l, in.laidN = place(n, uint32(len(s.cols)), uint32(len(s.req)), 0, nterms), n
	}
	return &in.laid
}

// write sizes the arena and writes header, columns and request slots; first is
// the place of the manifest's first column.
func (p *Plugin) write(in *instance, b *Batch, s *spec, l *layout, flags, first uint32) ([]byte, error) {
	if in.trace != nil {
		in.trace.l = *l
	}
	in.setClock(b.NowMS, b.Seed)
	if err := in.ensure(l.total, startBudget); err != nil {
		return nil, err
	}
	v := in.view(l.total)
	writeHeader(v, b, l, flags, uint32(len(s.req)))
	writeColumns(v, b, s.cols, l, first)
	writeRequest(v, b, s.req, l)
	return v, nil
}

const exponent = 0x7f800000 // all ones in NaN and in infinities

// copyFinite copies src, in guest memory at a multiple of 8, to dst of the same
// length and reports whether every number is finite. It checks two at once: an
// exponent of all ones carries into the sign when one is added to it.
func copyFinite(dst, src []uint32) bool {
	const pair, one, signs = exponent<<32 | exponent, 0x00800000_00800000, 0x80000000_80000000
	copy(dst, src)
	bad := uint64(0)
	if n := len(src); n%2 == 1 {
		bad = uint64(src[n-1])&pair + one
	}
	two := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(src))), len(src)/2)
	for len(two) >= 4 {
		bad |= (two[0]&pair + one) | (two[1]&pair + one) | (two[2]&pair + one) | (two[3]&pair + one)
		two = two[4:]
	}
	for _, x := range two {
		bad |= x&pair + one
	}
	return bad&signs == 0
}

func (p *Plugin) badScore(out []uint32) error {
	for i, x := range out {
		if x == abi.UnwrittenScore {
			return &Fault{Plugin: p.name, Reason: ReasonUnwritten,
				Detail: fmt.Sprintf("score %d of %d was not written", i, len(out))}
		}
		if x&exponent == exponent {
			return &Fault{Plugin: p.name, Reason: ReasonNotFinite,
				Detail: fmt.Sprintf("score %d of %d is %v", i, len(out), math.Float32frombits(x))}
		}
	}
	return nil
}

// Filter has the candidates narrowed: drop is [b.N], 0 = keep, else 1 + the
// index of a reason in Manifest().Roles[Filter].Reasons. Errors as Score.
func (p *Plugin) Filter(b *Batch, drop []uint32) error {
	in, s, err := p.begin(Filter, b.N)
	if err != nil {
		return err
	}
	return p.finish(in, Filter, p.filter(in, s, b, drop))
}

func (p *Plugin) filter(in *instance, s *spec, b *Batch, drop []uint32) error {
	n := uint32(b.N)
	l := place(n, uint32(len(s.cols)), uint32(len(s.req)), 0, 0)
	l.nslots = max(b.NSlots, 1)
	v, err := p.write(in, b, s, &l, b.Flags&^abi.FlagExplain, 0)
	if err != nil {
		return err
	}
	fill(words(v[l.out:l.out+l.stride*4]), abi.Unwritten)
	if err := p.call(in, Filter, b.N); err != nil {
		return err
	}
	copy(drop[:n], words(v[l.out:l.out+l.stride*4]))
	for i, d := range drop[:n] {
		switch {
		case d == abi.Unwritten:
			return &Fault{Plugin: p.name, Reason: ReasonUnwritten, Detail: fmt.Sprintf("result %d of %d was not written", i, n)}
		case d > s.reasons:
			return &Fault{Plugin: p.name, Reason: ReasonIndex, Detail: fmt.Sprintf("reason %d of %d for candidate %d", d,
				s.reasons, i)}
		}
	}
	return nil
}

// Order is what Pick asks for and answers. The memory is the caller's.
type Order struct {
	Scores []float32 // [b.NSlots * b.N] in, slot by slot
	Mask   []uint32  // [b.NSlots * b.N] in: 1 = may be placed, 0 = not
	K      int       // wanted length of each order
	Count  []uint32  // [b.NSlots] out: length of the order, 0 = no opinion
	Index  []uint32  // [b.NSlots * K] out: candidates, best first
}

// Pick has the candidates put in order. Errors as Score; o is then undefined.
func (p *Plugin) Pick(b *Batch, o *Order) error {
	in, s, err := p.begin(Pick, b.N)
	if err != nil {
		return err
	}
	return p.finish(in, Pick, p.pick(in, s, b, o))
}

func (p *Plugin) pick(in *instance, s *spec, b *Batch, o *Order) error {
	n, slots, k := uint32(b.N), max(b.NSlots, 1), uint32(o.K)
	l := place(n, 2*slots+uint32(len(s.cols)), uint32(len(s.req)), slots*(k+1)*4, 0)
	l.nslots, l.k = slots, k
	v, err := p.write(in, b, s, &l, b.Flags&^abi.FlagExplain, 2*slots)
	if err != nil {
		return err
	}
	for i := range slots {
		writeSlot(v, &l, i, bitsOf(o.Scores[i*n:(i+1)*n]))
		writeSlot(v, &l, slots+i, o.Mask[i*n:(i+1)*n])
	}
	fill(words(v[l.out:l.out+alignUp(l.outSize)]), abi.Unwritten)
	if err := p.call(in, Pick, b.N); err != nil {
		return err
	}
	out := words(v[l.out : l.out+l.outSize])
	for i := range slots {
		row := out[i*(k+1) : (i+1)*(k+1)]
		if err := p.checkOrder(row, o.Mask[i*n:(i+1)*n], i); err != nil {
			return err
		}
		o.Count[i] = row[0]
		copy(o.Index[i*k:(i+1)*k], row[1:1+row[0]])
	}
	return nil
}

func writeSlot(v []byte, l *layout, col uint32, src []uint32) {
	at := l.cols + col*l.stride*4
	dst := words(v[at : at+l.stride*4])
	clear(dst[copy(dst, src):])
}

// checkOrder checks {count, idx…} of one slot. Orders are short (a retry or
// two), so that looking back is cheaper than a set.
func (p *Plugin) checkOrder(row, mask []uint32, slot uint32) error {
	count := row[0]
	if count == abi.Unwritten {
		return &Fault{Plugin: p.name, Reason: ReasonUnwritten, Detail: fmt.Sprintf("order of slot %d was not written", slot)}
	}
	if int64(count) > int64(len(row)-1) {
		return &Fault{Plugin: p.name, Reason: ReasonIndex, Detail: fmt.Sprintf("order of %d, at most %d", count, len(row)-1)}
	}
	idx := row[1 : 1+count]
	for i, c := range idx {
		if int64(c) >= int64(len(mask)) || mask[c] == 0 || slices.Contains(idx[:i], c) {
			return &Fault{Plugin: p.name, Reason: ReasonIndex,
				Detail: fmt.Sprintf("slot %d, place %d: candidate %d is out of range, masked or duplicate", slot, i, int32(c))}
		}
	}
	return nil
}
