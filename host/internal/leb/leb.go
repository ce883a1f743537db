// Package leb reads and writes the numbers (LEB128), vectors and names of binary
// WebAssembly.
package leb

import "errors"

// Errors that a Reader ends with.
var (
	ErrShort = errors.New("unexpected end")
	ErrWide  = errors.New("number above 32 bits")
	errLong  = errors.New("number above 64 bits")
)

// Reader reads a part of a binary module. After the first error every read returns
// zero and Err stays: loops over counts must look at Err. It is not safe for
// concurrent use.
type Reader struct {
	Bytes []byte // the caller's
	At    int    // of the next byte
	Err   error
}

// Fail sets Err, unless there was an error before.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
}

// More reports whether there are bytes left and no error.
func (r *Reader) More() bool { return r.Err == nil && r.At < len(r.Bytes) }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if r.Err != nil || r.At >= len(r.Bytes) {
		r.Fail(ErrShort)
		return 0
	}
	r.At++
	return r.Bytes[r.At-1]
}

// U32 reads an unsigned number of at most 32 bits.
func (r *Reader) U32() uint32 {
	var v uint64
	for s := 0; s < 35; s += 7 {
		c := r.Byte()
		v |= uint64(c&0x7f) << s
		if c < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.Fail(ErrWide)
	return 0
}

// Count reads the length of a vector whose elements take at least one byte each.
func (r *Reader) Count() uint32 {
	n := r.U32()
	if int64(n) > int64(len(r.Bytes)-r.At) {
		r.Fail(ErrShort)
		return 0
	}
	return n
}

// Skip passes over a number of at most 64 bits.
func (r *Reader) Skip() {
	for range 10 {
		if r.Byte() < 0x80 {
			return
		}
	}
	r.Fail(errLong)
}

// Take returns the next n bytes, a part of Bytes.
func (r *Reader) Take(n uint32) []byte {
	if r.Err != nil || int64(n) > int64(len(r.Bytes)-r.At) {
		r.Fail(ErrShort)
		return nil
	}
	r.At += int(n)
	return r.Bytes[r.At-int(n) : r.At]
}

// Name reads a length and as many bytes of text.
func (r *Reader) Name() string { return string(r.Take(r.U32())) }

// AppendU32 appends an unsigned number in its shortest form.
func AppendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// AppendS64 appends a signed number in its shortest form.
func AppendS64(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
