package wasm

import (
	"encoding/binary"
	"unsafe"

	"github.com/kvasir-router/kvasir/abi"
)

// Batch is one decision's candidates in columns. Every column is [N]; nil
// means that the host does not know it and the guest gets its default. Values
// must be finite. The memory is the caller's and only read during a call.
type Batch struct {
	N            int
	Flags        uint32 // abi.Flag…; Score sets FlagExplain by itself
	PromptTokens uint32
	MaxTokens    uint32  // 0 = unknown
	Priority     float32 // higher = sooner
	NowMS        float64 // Unix milliseconds, frozen for the decision
	SessionHash  uint64  // 0 = none
	Seed         uint64
	Slot, NSlots uint32

	Columns       [abi.NumColumns][]float32 // by abi.Col…; entries of u32 columns are not used
	EndpointIDs   []uint32                  // abi.ColEndpointID; also finds published values
	AdapterStates []uint32                  // abi.ColAdapterState
	Request       [abi.NumRequestColumns]uint64
	Labels        LabelSource // nil = no endpoint has labels
}

// LabelSource reports which candidates have a label.
type LabelSource interface {
	// Label sets dst[i] to 1 where candidate i has the label, else to 0. dst
	// is [N] and valid during the call.
	Label(key, value string, dst []float32)
}

// labelPrefix begins the names of label columns: label/<key>=<value>.
const labelPrefix = "label/"

type columnKind uint8

const (
	colDefault   columnKind = iota // always its default
	colF32                         // Batch.Columns[id]
	colEndpoint                    // Batch.EndpointIDs
	colAdapter                     // Batch.AdapterStates
	colLabel                       // Batch.Labels
	colPublished                   // pub
)

// column is a manifest's column as resolved at load.
type column struct {
	kind       columnKind
	id         int
	def        uint32 // bits
	key, value string
	pub        *published
}

// layout is where the parts of one batch are, in bytes from its base.
type layout struct {
	stride                         uint32 // elements
	cols, req, out, outSize, terms uint32
	total                          uint32
	ncols, nterms, nslots, k       uint32
}

const colsOff = (abi.BatchHeaderSize + abi.ColumnAlign - 1) / abi.ColumnAlign * abi.ColumnAlign

func alignUp(v uint32) uint32 { return (v + abi.ColumnAlign - 1) &^ (abi.ColumnAlign - 1) }

// strides are those the host uses: few, because a guest may be compiled for each
// of them (sdk/c/kvasir.h), which halves what its loop costs. From 128 on they
// are a little more than a power of two: columns at distances of 4 KiB would
// share the same few lines of the processor's cache.
var strides = [...]uint32{16, 32, 64, 144, 272, 528, 1040, 2064, 4112}

// strideOf returns the least stride for n candidates.
func strideOf(n uint32) uint32 {
	for _, s := range strides {
		if n <= s {
			return s
		}
	}
	return uint32(abi.Stride(int(n)))
}

// place lays out a batch: ncols columns of n, nreq request slots, outSize
// bytes of result, 0 = one column, nterms columns of terms.
func place(n, ncols, nreq, outSize, nterms uint32) layout {
	l := layout{stride: strideOf(n), ncols: ncols, nterms: nterms, outSize: outSize, cols: colsOff}
	if outSize == 0 {
		l.outSize = l.stride * 4
	}
	l.req = l.cols + ncols*l.stride*4
	l.out = l.req + alignUp(nreq*8)
	l.total = l.out + alignUp(l.outSize)
	if nterms > 0 {
		l.terms = l.total
		l.total += nterms * l.stride * 4
	}
	return l
}

// header is the header of a batch with the gap behind it, as it lies in guest
// memory: guest and host are little-endian (New checks).
type header struct {
	size, n, stride, flags            uint32
	promptTokens, reserved, maxTokens uint32
	priority                          float32
	nowMS                             float64
	sessionHash                       uint64
	ncols, colsOff, outOff, reqOff    uint32
	seed                              uint64
	nreq, termsOff, slot, nslots      uint32
	k, outSize                        uint32
	_                                 [colsOff - abi.BatchHeaderSize]byte
}

// writeHeader writes the header to v, whose address is a multiple of 16, and
// clears the gap behind it.
func writeHeader(v []byte, b *Batch, l *layout, flags, nreq uint32) {
	*(*header)(unsafe.Pointer((*[colsOff]byte)(v))) = header{
		size: abi.BatchHeaderSize, n: uint32(b.N), stride: l.stride, flags: flags,
		promptTokens: b.PromptTokens, maxTokens: b.MaxTokens, priority: b.Priority, nowMS: b.NowMS,
		sessionHash: b.SessionHash,
		ncols:       l.ncols, colsOff: l.cols, outOff: l.out, reqOff: l.req, seed: b.Seed, nreq: nreq, termsOff: l.terms,
		slot: b.Slot, nslots: l.nslots, k: l.k, outSize: l.outSize,
	}
}

// words views 4-byte-aligned guest memory as numbers. Guest memory is
// little-endian, and so is every machine the engine compiles for (New checks).
func words(v []byte) []uint32 {
	if len(v) < 4 {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&v[0])), len(v)/4)
}

func bitsOf(f []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(f))), len(f))
}

func floatsOf(u []uint32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(u))), len(u))
}

// writeColumns writes the columns of a role, beginning at column first.
func writeColumns(v []byte, b *Batch, cols []column, l *layout, first uint32) {
	if len(cols) == 0 {
		return
	}
	stride := int(l.stride)
	all := words(v[l.cols+first*l.stride*4:])
	for k := range cols {
		c, dst := &cols[k], all[:stride]
		all = all[stride:]
		if src := c.given(b); src != nil {
			copy(dst, src)
		} else {
			c.write(dst, b)
		}
		if stride > b.N {
			clear(dst[b.N:])
		}
	}
}

// given returns the host's column if it is one, [b.N], else nil.
func (c *column) given(b *Batch) []uint32 {
	if c.kind != colF32 {
		return nil
	}
	src := b.Columns[c.id]
	if src == nil {
		return nil
	}
	return bitsOf(src[:b.N])
}

// write fills dst[:b.N].
func (c *column) write(dst []uint32, b *Batch) {
	dst = dst[:b.N]
	switch c.kind {
	case colF32:
		if src := c.given(b); src != nil {
			copy(dst, src)
			return
		}
	case colEndpoint:
		if b.EndpointIDs != nil {
			copy(dst, b.EndpointIDs)
			return
		}
	case colAdapter:
		if b.AdapterStates != nil {
			copy(dst, b.AdapterStates)
			return
		}
	case colLabel:
		if b.Labels != nil {
			b.Labels.Label(c.key, c.value, floatsOf(dst))
			return
		}
	case colPublished:
		c.pub.read(dst, b.EndpointIDs, c.def)
		return
	}
	fill(dst, c.def)
}

// unwrittenScores is the initial content of a row of scores.
var unwrittenScores = func() (row [256]uint32) {
	fill(row[:], abi.UnwrittenScore)
	return row
}()

func fillUnwrittenScores(dst []uint32) {
	for len(dst) > 0 {
		dst = dst[copy(dst, unwrittenScores[:]):]
	}
}

func fill(dst []uint32, v uint32) {
	for i := range dst {
		dst[i] = v
	}
}

// writeRequest writes the request slots; a slot below zero is unknown to the
// host and 0.
func writeRequest(v []byte, b *Batch, req []int, l *layout) {
	at := l.req
	for _, id := range req {
		x := uint64(0)
		if id >= 0 {
			x = b.Request[id]
		}
		binary.LittleEndian.PutUint64(v[at:], x)
		at += 8
	}
	clear(v[at:l.out])
}
