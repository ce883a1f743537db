package kvevents

import (
	"encoding/binary"
	"errors"
	"math"
)

// Errors of msgpack input. They are values without a position, so that counting and
// comparing them costs nothing; payloads are not kept either.
var (
	errTruncated = errors.New("kvevents: msgpack value is truncated")
	errType      = errors.New("kvevents: msgpack value of the wrong type")
	errDepth     = errors.New("kvevents: msgpack nested too deeply")
	errRange     = errors.New("kvevents: msgpack number out of range")
)

// maxDepth bounds the nesting of skipped values. Real events nest three deep
// (extra_keys: list of blocks, list of keys, [identifier, offset]); 16 leaves
// room for fields to come and keeps the stack small.
const maxDepth = 16

// reader walks msgpack bytes. Its methods leave the position undefined after an
// error. No method allocates; lengths are compared with the bytes left before
// anything is sized by them.
type reader struct {
	b []byte
	i int
}

// next returns the next n bytes and steps over them.
func (r *reader) next(n uint64) ([]byte, error) {
	if n > uint64(len(r.b)-r.i) {
		return nil, errTruncated
	}
	s := r.b[r.i : r.i+int(n)]
	r.i += int(n)
	return s, nil
}

// peek returns the type byte of the next value.
func (r *reader) peek() (byte, error) {
	if r.i >= len(r.b) {
		return 0, errTruncated
	}
	return r.b[r.i], nil
}

// isNil steps over a nil and reports whether there was one.
func (r *reader) isNil() bool {
	if r.i < len(r.b) && r.b[r.i] == 0xc0 {
		r.i++
		return true
	}
	return false
}

// size reads a big-endian length of 1, 2 or 4 bytes.
func (r *reader) size(width uint64) (uint64, error) {
	s, err := r.next(width)
	if err != nil {
		return 0, err
	}
	switch width {
	case 1:
		return uint64(s[0]), nil
	case 2:
		return uint64(binary.BigEndian.Uint16(s)), nil
	}
	return uint64(binary.BigEndian.Uint32(s)), nil
}

// array reads an array header and returns the number of elements, which is at
// most the number of bytes left.
func (r *reader) array() (int, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	r.i++
	var n uint64
	switch {
	case c&0xf0 == 0x90:
		n = uint64(c & 15)
	case c == 0xdc:
		n, err = r.size(2)
	case c == 0xdd:
		n, err = r.size(4)
	default:
		return 0, errType
	}
	if err == nil && n > uint64(len(r.b)-r.i) {
		err = errTruncated
	}
	return int(n), err
}

// object reads a map header and returns the number of pairs.
func (r *reader) object() (int, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	r.i++
	var n uint64
	switch {
	case c&0xf0 == 0x80:
		n = uint64(c & 15)
	case c == 0xde:
		n, err = r.size(2)
	case c == 0xdf:
		n, err = r.size(4)
	default:
		return 0, errType
	}
	if err == nil && 2*n > uint64(len(r.b)-r.i) {
		err = errTruncated
	}
	return int(n), err
}

func isArray(c byte) bool  { return c&0xf0 == 0x90 || c == 0xdc || c == 0xdd }
func isObject(c byte) bool { return c&0xf0 == 0x80 || c == 0xde || c == 0xdf }
func isString(c byte) bool { return c&0xe0 == 0xa0 || c >= 0xd9 && c <= 0xdb }
func isBytes(c byte) bool  { return c >= 0xc4 && c <= 0xc6 }

// text reads a string or byte string and returns a view of it.
func (r *reader) text() ([]byte, error) {
	c, err := r.peek()
	if err != nil {
		return nil, err
	}
	r.i++
	var n uint64
	switch {
	case c&0xe0 == 0xa0:
		n = uint64(c & 31)
	case c == 0xd9, c == 0xc4:
		n, err = r.size(1)
	case c == 0xda, c == 0xc5:
		n, err = r.size(2)
	case c == 0xdb, c == 0xc6:
		n, err = r.size(4)
	default:
		return nil, errType
	}
	if err != nil {
		return nil, err
	}
	return r.next(n)
}

// integer reads an integer of any width; a negative one comes back as its two's
// complement.
func (r *reader) integer() (bits uint64, negative bool, err error) {
	c, err := r.peek()
	if err != nil {
		return 0, false, err
	}
	r.i++
	switch {
	case c < 0x80:
		return uint64(c), false, nil
	case c >= 0xe0:
		return uint64(int64(int8(c))), true, nil
	case c < 0xcc || c > 0xd3:
		return 0, false, errType
	}
	s, err := r.next(1 << ((c - 0xcc) & 3))
	if err != nil {
		return 0, false, err
	}
	switch c {
	case 0xcc:
		bits = uint64(s[0])
	case 0xcd:
		bits = uint64(binary.BigEndian.Uint16(s))
	case 0xce:
		bits = uint64(binary.BigEndian.Uint32(s))
	case 0xcf:
		bits = binary.BigEndian.Uint64(s)
	case 0xd0:
		bits = uint64(int64(int8(s[0])))
	case 0xd1:
		bits = uint64(int64(int16(binary.BigEndian.Uint16(s))))
	case 0xd2:
		bits = uint64(int64(int32(binary.BigEndian.Uint32(s))))
	case 0xd3:
		bits = binary.BigEndian.Uint64(s)
	}
	return bits, c >= 0xd0 && int64(bits) < 0, nil
}

// count reads an integer in [0, max].
func (r *reader) count(max uint64) (int, error) {
	v, negative, err := r.integer()
	if err == nil && (negative || v > max) {
		err = errRange
	}
	return int(v), err
}

// number reads a float or an integer.
func (r *reader) number() (float64, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	switch c {
	case 0xca:
		r.i++
		s, err := r.next(4)
		if err != nil {
			return 0, err
		}
		return float64(math.Float32frombits(binary.BigEndian.Uint32(s))), nil
	case 0xcb:
		r.i++
		s, err := r.next(8)
		if err != nil {
			return 0, err
		}
		return math.Float64frombits(binary.BigEndian.Uint64(s)), nil
	}
	v, negative, err := r.integer()
	if negative {
		return float64(int64(v)), err
	}
	return float64(v), err
}

// skip steps over one value of any type.
func (r *reader) skip() error { return r.skipDepth(maxDepth) }

func (r *reader) skipDepth(depth int) error {
	c, err := r.peek()
	if err != nil {
		return err
	}
	if isArray(c) || isObject(c) {
		if depth == 0 {
			return errDepth
		}
		return r.skipContainer(c, depth-1)
	}
	switch {
	case isString(c), isBytes(c):
		_, err = r.text()
		return err
	case c == 0xc0, c == 0xc2, c == 0xc3:
		r.i++
		return nil
	case c == 0xca, c == 0xcb:
		_, err = r.number()
		return err
	case c >= 0xd4 && c <= 0xd8: // fixext 1, 2, 4, 8, 16: type byte and data
		r.i++
		_, err = r.next(1 + 1<<(c-0xd4))
		return err
	case c >= 0xc7 && c <= 0xc9: // ext 8, 16, 32
		r.i++
		n, err := r.size(1 << (c - 0xc7))
		if err != nil {
			return err
		}
		_, err = r.next(n + 1)
		return err
	}
	_, _, err = r.integer()
	return err
}

func (r *reader) skipContainer(c byte, depth int) error {
	var n int
	var err error
	if isArray(c) {
		n, err = r.array()
	} else {
		n, err = r.object()
		n *= 2
	}
	for ; err == nil && n > 0; n-- {
		err = r.skipDepth(depth)
	}
	return err
}
