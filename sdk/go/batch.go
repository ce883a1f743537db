package kvasir

import "unsafe"

// Batch is one decision's candidates (or, for Observe, outcomes), as the host
// laid them out in memory. All slices are valid during the call and must not
// be kept; only results may be written.
type Batch struct {
	size, n, stride, flags               uint32
	promptTokens, _, maxTokens           uint32
	priority                             float32
	nowMS                                float64
	sessionHash                          uint64
	ncols, colsOff, outOff, reqOff       uint32
	seed                                 uint64
	nreq, termsOff, slot, nslots, k, out uint32
}

// The layout is that of SPEC.md, or this does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Batch{})-BatchHeaderSize]
	_ = [1]struct{}{}[unsafe.Offsetof(Batch{}.nowMS)-BatchNowMs]
	_ = [1]struct{}{}[unsafe.Offsetof(Batch{}.seed)-BatchSeed]
	_ = [1]struct{}{}[unsafe.Offsetof(Batch{}.out)-BatchOutSize]
)

func (b *Batch) at(off uint32) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(b), off) }

func (b *Batch) f32(col uint32) []float32 {
	return unsafe.Slice((*float32)(b.at(b.colsOff+4*b.stride*col)), b.n)
}

func (b *Batch) u32(col uint32) []uint32 {
	return unsafe.Slice((*uint32)(b.at(b.colsOff+4*b.stride*col)), b.n)
}

// first is the place of the role's first own column: behind scores and mask
// when picking, which is the only role with a wanted order and candidates.
func (b *Batch) first() uint32 {
	if picking {
		return 2 * b.nslots
	}
	return 0
}

// F32 returns column k of the role, [N].
func (b *Batch) F32(k int) []float32 { return b.f32(b.first() + uint32(k)) }

// U32 returns column k of the role, [N].
func (b *Batch) U32(k int) []uint32 { return b.u32(b.first() + uint32(k)) }

// NCols returns the number of the role's columns.
func (b *Batch) NCols() int { return int(b.ncols - b.first()) }

// NReq returns the number of request columns.
func (b *Batch) NReq() int { return int(b.nreq) }

// N returns the number of rows.
func (b *Batch) N() int { return int(b.n) }

// PromptTokens returns the tokens of the prompt.
func (b *Batch) PromptTokens() int { return int(b.promptTokens) }

// MaxTokens returns the output tokens asked for, 0 = unknown.
func (b *Batch) MaxTokens() int { return int(b.maxTokens) }

// Priority returns the request's priority, higher = sooner.
func (b *Batch) Priority() float32 { return b.priority }

// NowMS returns the Unix time in milliseconds, which stands still during a call.
func (b *Batch) NowMS() float64 { return b.nowMS }

// SessionHash returns a hash of the session, 0 = none.
func (b *Batch) SessionHash() uint64 { return b.sessionHash }

// Seed returns the only source of chance a role may use.
func (b *Batch) Seed() uint64 { return b.seed }

// Slot returns the place to fill: 0 serve or decode, 1 prefill.
func (b *Batch) Slot() int { return int(b.slot) }

// Explain reports whether the terms are wanted.
func (b *Batch) Explain() bool { return b.flags&FlagExplain != 0 && b.termsOff != 0 }

// ReqU32 returns request column k.
func (b *Batch) ReqU32(k int) uint32 { return uint32(b.ReqU64(k)) }

// ReqU64 returns request column k.
func (b *Batch) ReqU64(k int) uint64 { return *(*uint64)(b.at(b.reqOff + 8*uint32(k))) }

// Scores returns what a scorer writes, [N], higher is better.
func (b *Batch) Scores() []float32 { return unsafe.Slice((*float32)(b.at(b.outOff)), b.n) }

// Drops returns what a filter writes, [N].
func (b *Batch) Drops() []uint32 { return unsafe.Slice((*uint32)(b.at(b.outOff)), b.n) }

// Term returns term t, [N]; only if Explain.
func (b *Batch) Term(t int) []float32 {
	return unsafe.Slice((*float32)(b.at(b.termsOff+4*b.stride*uint32(t))), b.n)
}

// Slots returns how many places a picker fills.
func (b *Batch) Slots() int { return int(b.nslots) }

// SlotScores returns the summed scores of a slot, [N].
func (b *Batch) SlotScores(slot int) []float32 { return b.f32(uint32(slot)) }

// SlotMask returns which candidates may take a slot, [N] of 0 and 1.
func (b *Batch) SlotMask(slot int) []uint32 { return b.u32(b.nslots + uint32(slot)) }

// Order sets the order of a slot, best first; none = no opinion.
func (b *Batch) Order(slot int, order ...uint32) {
	out := unsafe.Slice((*uint32)(b.at(b.outOff+uint32(slot)*(b.k+1)*4)), b.k+1)
	out[0] = uint32(copy(out[1:], order))
}

// Wanted returns how long an order may be.
func (b *Batch) Wanted() int { return int(b.k) }

// Endpoints returns what an observer's rows are about: the endpoint_id of
// every endpoint.
func (b *Batch) Endpoints() []uint32 { return unsafe.Slice((*uint32)(b.at(b.termsOff)), b.nslots) }

// Published returns what an observer writes for published column p, by row of
// Endpoints; what is left alone keeps its value.
func (b *Batch) Published(p int) []float32 {
	return unsafe.Slice((*float32)(b.at(b.outOff+4*b.k*uint32(p))), b.nslots)
}

// picking is set while the pick role runs.
var picking bool

// call runs a role and returns its status.
func call(at int, b *Batch) uint32 {
	r := roles[at]
	if r == nil {
		return StatusUnsupported
	}
	picking = at == rolePick
	return status(r.call(b))
}

func status(err error) uint32 {
	if err == nil {
		return StatusOK
	}
	if _, ok := err.(abstention); ok {
		return StatusAbstain
	}
	if _, ok := err.(unsupported); ok {
		return StatusUnsupported
	}
	lastError = err.Error()
	if len(lastError) > MaxErrorBytes {
		lastError = lastError[:MaxErrorBytes]
	}
	return StatusError
}

// runConfigure runs what Configure registered on the argument at base.
func runConfigure(base unsafe.Pointer) uint32 {
	if configure == nil {
		return StatusUnsupported
	}
	field := func(off uint32) uint32 { return *(*uint32)(unsafe.Add(base, off)) }
	text := unsafe.Slice((*byte)(unsafe.Add(base, field(ConfigureDataOff))), field(ConfigureDataLen))
	return status(configure(append([]byte(nil), text...)))
}

// runIdle runs what Idle registered.
func runIdle() {
	if idle != nil {
		idle()
	}
}
