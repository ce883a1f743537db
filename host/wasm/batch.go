package wasm

import (
	"encoding/binary"
	"math"
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

// LabelSource tells which candidates carry a label.
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

// place lays out a batch: ncols columns of n, nreq request slots, outSize
// bytes of result, nterms columns of terms.
func place(n, ncols, nreq, outSize, nterms uint32) layout {
	l := layout{stride: uint32(abi.Stride(int(n))), ncols: ncols, nterms: nterms, outSize: outSize, cols: colsOff}
	l.req = l.cols + ncols*l.stride*4
	l.out = l.req + alignUp(nreq*8)
	l.total = l.out + alignUp(outSize)
	if nterms > 0 {
		l.terms = l.total
		l.total += nterms * l.stride * 4
	}
	return l
}

// writeHeader writes the header and clears the gap behind it.
func writeHeader(v []byte, b *Batch, l *layout, flags, nreq uint32) {
	le := binary.LittleEndian
	h := v[:colsOff:colsOff]
	clear(h)
	le.PutUint32(h[abi.BatchSize:], abi.BatchHeaderSize)
	le.PutUint32(h[abi.BatchN:], uint32(b.N))
	le.PutUint32(h[abi.BatchStride:], l.stride)
	le.PutUint32(h[abi.BatchFlags:], flags)
	le.PutUint32(h[abi.BatchPromptTokens:], b.PromptTokens)
	le.PutUint32(h[abi.BatchMaxTokens:], b.MaxTokens)
	le.PutUint32(h[abi.BatchPriority:], math.Float32bits(b.Priority))
	le.PutUint64(h[abi.BatchNowMs:], math.Float64bits(b.NowMS))
	le.PutUint64(h[abi.BatchSessionHash:], b.SessionHash)
	le.PutUint32(h[abi.BatchNCols:], l.ncols)
	le.PutUint32(h[abi.BatchColsOff:], l.cols)
	le.PutUint32(h[abi.BatchOutOff:], l.out)
	le.PutUint32(h[abi.BatchReqOff:], l.req)
	le.PutUint64(h[abi.BatchSeed:], b.Seed)
	le.PutUint32(h[abi.BatchNReq:], nreq)
	le.PutUint32(h[abi.BatchTermsOff:], l.terms)
	le.PutUint32(h[abi.BatchSlot:], b.Slot)
	le.PutUint32(h[abi.BatchNSlots:], l.nslots)
	le.PutUint32(h[abi.BatchK:], l.k)
	le.PutUint32(h[abi.BatchOutSize:], l.outSize)
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

// writeColumns writes the columns of a role, of which the first stands at
// column first.
func writeColumns(v []byte, b *Batch, cols []column, l *layout, first uint32) {
	for k := range cols {
		at := l.cols + (first+uint32(k))*l.stride*4
		dst := words(v[at : at+l.stride*4])
		cols[k].write(dst, b)
		clear(dst[b.N:])
	}
}

// write fills dst[:b.N].
func (c *column) write(dst []uint32, b *Batch) {
	dst = dst[:b.N]
	switch c.kind {
	case colF32:
		if src := b.Columns[c.id]; src != nil {
			copy(dst, bitsOf(src))
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
