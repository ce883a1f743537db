package blockhash

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
)

func TestSeed_distinct(t *testing.T) {
	seen := map[uint64][3]string{}
	for _, c := range [][3]string{{"", "", ""}, {"a", "", ""}, {"", "a", ""}, {"", "", "a"}, {"ab", "", ""}, {"a", "b",
		""}, {"", "ab", ""}, {"", "a", "b"}} {
		s := Seed(c[0], c[1], c[2])
		if o, ok := seen[s]; ok {
			t.Errorf("Seed%q = Seed%q", c, o)
		}
		seen[s] = c
	}
}

// TestAppend_golden holds values computed with the Python package xxhash 3.x:
// h = xxh64(struct.pack("<Q", h) + struct.pack("<16I", *block)).
func TestAppend_golden(t *testing.T) {
	tokens := make([]uint32, 40)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	got, rest := Append(nil, 1, tokens, 16)
	want := []uint64{392961370508703192, 18238767986531051013}
	if !slices.Equal(got, want) {
		t.Errorf("Append = %d, want %d", got, want)
	}
	if !slices.Equal(rest, tokens[32:]) {
		t.Errorf("rest = %d", rest)
	}
	if got, want := Seed("m", "", "s"), uint64(6272784443125147759); got != want {
		t.Errorf("Seed = %d, want %d", got, want)
	}
}

func TestAppend_incremental(t *testing.T) {
	tokens := make([]uint32, 1000)
	for i := range tokens {
		tokens[i] = uint32(i * i)
	}
	for _, size := range []int{1, 7, 16, 32, 256, MaxBlockTokens} {
		whole, _ := Append(nil, 5, tokens, size)
		var parts []uint64
		var pend []uint32
		prev := uint64(5)
		for i := 0; i < len(tokens); i += 37 {
			pend = append(slices.Clone(pend), tokens[i:min(i+37, len(tokens))]...)
			n := len(parts)
			parts, pend = Append(parts, prev, pend, size)
			if len(parts) > n {
				prev = parts[len(parts)-1]
			}
		}
		if !slices.Equal(parts, whole) {
			t.Errorf("size %d: parts differ from whole", size)
		}
		for i, h := range whole { // the definition, written out
			p := uint64(5)
			if i > 0 {
				p = whole[i-1]
			}
			b := binary.LittleEndian.AppendUint64(nil, p)
			for _, x := range tokens[i*size : (i+1)*size] {
				b = binary.LittleEndian.AppendUint32(b, x)
			}
			if xxhash.Sum64(b) != h {
				t.Errorf("size %d block %d differs from the definition", size, i)
			}
		}
	}
}

func TestAppend_allocs(t *testing.T) {
	tokens := make([]uint32, 4096)
	dst := make([]uint64, 0, 256)
	if n := testing.AllocsPerRun(100, func() { dst, _ = Append(dst[:0], 1, tokens, 16) }); n != 0 {
		t.Errorf("Append allocates %v times", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	tokens := make([]uint32, 100_000)
	var dst []uint64
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = Append(dst[:0], 1, tokens, 16)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/token")
}
