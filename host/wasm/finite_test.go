package wasm

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestCopyFinite compares with the library's tests, at every length and place.
func TestCopyFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	notFinite := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
		math.Float32frombits(0x7f800001), math.Float32frombits(0xffffffff)}
	fine := []float32{0, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32,
		math.Float32frombits(0x007fffff)}
	back := make([]uint64, 40)
	for n := range 70 {
		src := unsafe.Slice((*float32)(unsafe.Pointer(&back[0])), 2*len(back))[:n]
		dst := make([]float32, n)
		for i := range src {
			src[i] = fine[r.IntN(len(fine))]
		}
		if !copyFinite(bitsOf(dst), bitsOf(src)) {
			t.Fatalf("%d finite numbers are not", n)
		}
		for i := range src {
			if math.Float32bits(dst[i]) != math.Float32bits(src[i]) {
				t.Fatalf("number %d of %d is not copied", i, n)
			}
			for _, x := range notFinite {
				was := src[i]
				src[i] = x
				if copyFinite(bitsOf(dst), bitsOf(src)) {
					t.Fatalf("%#x at %d of %d is finite", math.Float32bits(x), i, n)
				}
				src[i] = was
			}
		}
	}
}

// TestHeader: the struct lies as the ABI says.
func TestHeader(t *testing.T) {
	v := make([]uint64, colsOff/8)
	for i := range v {
		v[i] = math.MaxUint64
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), colsOff)
	writeHeader(b, &Batch{N: 3, PromptTokens: 7, MaxTokens: 9, Priority: 1.5, NowMS: 2.5, SessionHash: 1 << 40,
		Seed: 1 << 41, Slot: 1},
		&layout{stride: 16, ncols: 5, cols: 128, out: 448, req: 384, terms: 512, nslots: 2, k: 4, outSize: 64}, 6, 8)
	le := func(off, size int) (x uint64) {
		for i := range size {
			x |= uint64(b[off+i]) << (8 * i)
		}
		return x
	}
	for _, f := range headerFields {
		if got := le(f.off, f.size); got != f.want {
			t.Errorf("offset %d: got %#x, want %#x", f.off, got, f.want)
		}
	}
	if n := unsafe.Sizeof(header{}); n != colsOff {
		t.Errorf("header of %d bytes, want %d", n, colsOff)
	}
}
