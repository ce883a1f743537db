package jsonscan

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// TestMasks compares masks and masksGeneric with their definition.
func TestMasks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b [block]byte
		for i := range b {
			if b[i] = byte(r.Uint32()); r.IntN(4) == 0 {
				b[i] = "\"\\\x00\x1f !\x7f\x80\xa2\xdc\xff"[r.IntN(11)]
			}
		}
		var want [3]uint64
		for i, c := range b {
			for k, is := range [3]bool{c == '"', c == '\\', c < ' '} {
				if is {
					want[k] |= 1 << i
				}
			}
		}
		for name, f := range map[string]func(*[block]byte) (q, s, c uint64){"masks": masks, "generic": masksGeneric} {
			if q, s, c := f(&b); [3]uint64{q, s, c} != want {
				t.Fatalf("%s(%q): got %x %x %x, want %x", name, b, q, s, c, want)
			}
		}
	}
}

// TestPlain compares plain and plainGeneric with their definition, for one byte at each
// place that is not plain.
func TestPlain(t *testing.T) {
	for n := block; n < 5*block; n += 7 {
		b := bytes.Repeat([]byte("a\x7f\x80\xff !#[]"), n/9+1)[:n]
		for at := -1; at < n; at++ {
			for _, c := range []byte("\"\\\x1f\x00") {
				want := n / block * block
				if at >= 0 {
					b[at], want = c, min(want, at/block*block)
				}
				if got := plain(&b[0], n); got != want {
					t.Fatalf("%d bytes, %q at %d: got %d, want %d", n, c, at, got, want)
				}
				if got := plainGeneric(b); got != want {
					t.Fatalf("generic: %d bytes, %q at %d: got %d, want %d", n, c, at, got, want)
				}
				if at >= 0 {
					b[at] = 'b'
				}
			}
		}
	}
}

// stringByByte is String, one byte after the other.
func stringByByte(b []byte, i int) (end int, escaped bool, err *Error) {
	for i++; i < len(b); {
		switch n := escapeLen(b[i:]); {
		case b[i] == '"':
			return i + 1, escaped, nil
		case b[i] < ' ':
			return 0, false, fault(i, "control character in string")
		case b[i] != '\\':
			i++
		case n == 0:
			return 0, false, fault(i, "invalid escape")
		default:
			i += n
			escaped = true
		}
	}
	return 0, false, fault(len(b), "unfinished string")
}

func checkString(t *testing.T, b []byte) {
	t.Helper()
	end, escaped, err := String(b, 0)
	wantEnd, wantEscaped, wantErr := stringByByte(b, 0)
	if end != wantEnd || escaped != wantEscaped || (err == nil) != (wantErr == nil) || err != nil && *err != *wantErr {
		t.Fatalf("%q: got %d, %v, %v, want %d, %v, %v", b, end, escaped, err, wantEnd, wantEscaped, wantErr)
	}
}

// TestString_blocks compares String with stringByByte on strings of all lengths around
// the borders of blocks, dense with escapes and with faults.
func TestString_blocks(t *testing.T) {
	testdeps.Sequential(t)
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{"x", "plain text of some length ", `\n`, `\"`, `\\`, `\\\\`, `\u00e9`, `\ud83d\ude00`, "\u00e9",
		`\u12`, `\x`, "\n", `\`, `"`}
	for n := range 60_000 {
		b := []byte{'"'}
		valid := len(parts) - 5*(n%2)
		for range r.IntN(60) {
			b = append(b, parts[r.IntN(valid)]...)
			if r.IntN(3) == 0 {
				b = append(b, bytes.Repeat([]byte("y"), r.IntN(70))...)
			}
		}
		if r.IntN(8) > 0 {
			b = append(b, '"')
		}
		b = append(b, bytes.Repeat([]byte("z"), r.IntN(80))...)
		checkString(t, b)
	}
}

// FuzzString compares String with stringByByte.
func FuzzString(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Add(bytes.Repeat([]byte(`\\\"\u00e9 plain`), 20))
	f.Fuzz(func(t *testing.T, b []byte) { checkString(t, append([]byte{'"'}, b...)) })
}
