package wasm

import "errors"

var errShort = errors.New("unexpected end")

// reader reads a binary module. After the first error every read returns zero
// and err stays; loops over counts must look at err.
type reader struct {
	b   []byte
	i   int
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) more() bool { return r.err == nil && r.i < len(r.b) }

func (r *reader) byte() byte {
	if r.err != nil || r.i >= len(r.b) {
		r.fail(errShort)
		return 0
	}
	r.i++
	return r.b[r.i-1]
}

// u32 reads an unsigned LEB128 number of at most 32 bits.
func (r *reader) u32() uint32 {
	var v uint64
	for s := 0; s < 35; s += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << s
		if c < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.fail(errors.New("number above 32 bits"))
	return 0
}

// count reads the length of a vector whose elements take at least one byte.
func (r *reader) count() uint32 {
	n := r.u32()
	if int64(n) > int64(len(r.b)-r.i) {
		r.fail(errShort)
		return 0
	}
	return n
}

// skipLEB skips a number of at most 64 bits.
func (r *reader) skipLEB() {
	for range 10 {
		if r.byte() < 0x80 {
			return
		}
	}
	r.fail(errors.New("number above 64 bits"))
}

func (r *reader) take(n uint32) []byte {
	if r.err != nil || int64(n) > int64(len(r.b)-r.i) {
		r.fail(errShort)
		return nil
	}
	r.i += int(n)
	return r.b[r.i-int(n) : r.i]
}

func (r *reader) name() string { return string(r.take(r.u32())) }

func appendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendS64(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
