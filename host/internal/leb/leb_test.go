package leb

import (
	"bytes"
	"errors"
	"testing"
)

// TestReader_u32: a number is read as it was written; what is too wide or ends early
// is an error, which stays.
func TestReader_u32(t *testing.T) {
	for _, v := range []uint32{0, 1, 127, 128, 300, 1<<31 - 1, 1<<32 - 1} {
		r := Reader{Bytes: append(AppendU32(nil, v), 7)}
		if got := r.U32(); got != v || r.Err != nil || r.Byte() != 7 {
			t.Errorf("%d: got %d, %v", v, got, r.Err)
		}
	}
	for name, c := range map[string]struct {
		bytes []byte
		want  error
	}{
		"empty":    {nil, ErrShort},
		"cut":      {[]byte{0x80, 0x80}, ErrShort},
		"33 bits":  {[]byte{0xff, 0xff, 0xff, 0xff, 0x1f}, ErrWide},
		"six long": {[]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}, ErrWide},
	} {
		r := Reader{Bytes: c.bytes}
		if got := r.U32(); got != 0 || !errors.Is(r.Err, c.want) || r.More() || r.Byte() != 0 || r.Take(0) != nil {
			t.Errorf("%s: got %d, %v, want %v", name, got, r.Err, c.want)
		}
	}
}

// TestReader_take: what is longer than the rest is an error.
func TestReader_take(t *testing.T) {
	r := Reader{Bytes: []byte("\x03abcrest")}
	if name := r.Name(); name != "abc" || string(r.Take(4)) != "rest" || r.More() || r.Err != nil {
		t.Errorf("%q, %v", name, r.Err)
	}
	if r.Take(1) != nil || !errors.Is(r.Err, ErrShort) {
		t.Errorf("behind the end: %v", r.Err)
	}
	r = Reader{Bytes: []byte{5, 1, 2}}
	if r.Count() != 0 || !errors.Is(r.Err, ErrShort) {
		t.Errorf("a vector longer than the rest: %v", r.Err)
	}
	r = Reader{Bytes: bytes.Repeat([]byte{0x80}, 11)}
	if r.Skip(); !errors.Is(r.Err, errLong) {
		t.Errorf("eleven digits: %v", r.Err)
	}
}

// TestAppendS64 compares with the examples of the specification.
func TestAppendS64(t *testing.T) {
	for v, want := range map[int64][]byte{0: {0}, 2: {2}, -2: {0x7e}, 63: {0x3f}, 64: {0xc0, 0}, -64: {0x40},
		-65: {0xbf, 0x7f}, 128: {0x80, 1}, -129: {0xff, 0x7e}} {
		if got := AppendS64(nil, v); !bytes.Equal(got, want) {
			t.Errorf("%d: got %x, want %x", v, got, want)
		}
	}
}

// FuzzReader reads whatever there is without a panic, and never behind its end.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\x03abc\x80\x01"), []byte("nucst"))
	f.Fuzz(func(t *testing.T, b, ops []byte) {
		r := Reader{Bytes: b}
		for _, op := range ops {
			switch op {
			case 'n':
				_ = r.Name()
			case 'u':
				r.U32()
			case 'c':
				r.Count()
			case 's':
				r.Skip()
			default:
				r.Take(uint32(op))
			}
			if r.At > len(b) {
				t.Fatalf("at %d of %d", r.At, len(b))
			}
		}
	})
}
