package llmapi

import (
	"encoding/binary"
	"math/bits"
)

// MaxDepth is the greatest nesting of a body: deeper than any real request,
// shallower than where the engines' own parsers give up (Python: about 1000).
const MaxDepth = 512

// The functions of this file walk JSON text. Each takes the offset of its first
// byte and returns the offset after its last; a fault is a *Error with its
// offset. The grammar is RFC 8259, the same as encoding/json accepts: bytes that
// are not UTF-8 pass inside strings, numbers may be of any size.

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns a mask whose lowest set bit is the high bit of the first byte
// of x (little endian) that is a quote, a backslash or a control character; 0 if
// there is none. Higher bits may be wrong.
func special(x uint64) uint64 {
	q := x ^ 0x02*ones // the quote becomes 0x20, control characters stay below it, nothing else falls below 0x21
	s := x ^ '\\'*ones // the backslash becomes 0
	return ((q-0x21*ones)&^q | (s-ones)&^s) & highs
}

// plainRun is how many bytes without anything special make a long stretch of them
// likely: code has an escape every 30 bytes or so, prose every few hundred.
const plainRun = 64

// skipPlain returns an offset from i on before which nothing is special. It looks
// at 32 bytes at a time, which costs one branch, and stops within 32 bytes of the
// first special one.
func skipPlain(b []byte, i int) int {
	for i+32 <= len(b) {
		w := b[i : i+32 : i+32]
		m := special(binary.LittleEndian.Uint64(w)) | special(binary.LittleEndian.Uint64(w[8:])) |
			special(binary.LittleEndian.Uint64(w[16:])) | special(binary.LittleEndian.Uint64(w[24:]))
		if m != 0 {
			break
		}
		i += 32
	}
	return i
}

// skipString returns the offset after the closing quote of the string whose
// opening quote is at i, and whether it holds an escape.
func skipString(b []byte, i int) (end int, escaped bool, err *Error) {
	i++
	for {
		for from := i; i+8 <= len(b); {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			if i += 8; i-from == plainRun {
				i = skipPlain(b, i)
			}
		}
		if i >= len(b) {
			return 0, false, invalidJSON(len(b), "unfinished string")
		}
		c := b[i]
		if c == '"' {
			return i + 1, escaped, nil
		}
		if c != '\\' {
			if c < ' ' {
				return 0, false, invalidJSON(i, "control character in string")
			}
			i++
			continue
		}
		escaped = true
		if i+1 < len(b) && simpleEscape[b[i+1]] {
			i += 2
			continue
		}
		n := escapeLen(b[i:])
		if n == 0 {
			return 0, false, invalidJSON(i, "invalid escape")
		}
		i += n
	}
}

// simpleEscape marks what may follow a backslash, but for u.
var simpleEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escapeLen returns the length of the escape sequence b begins with, 0 if it is
// none.
func escapeLen(b []byte) int {
	switch {
	case len(b) < 2:
	case simpleEscape[b[1]]:
		return 2
	case b[1] == 'u' && hex4(b[2:]) >= 0:
		return 6
	}
	return 0
}

func skipNumber(b []byte, i int) (int, *Error) {
	from := i
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && b[i] >= '1' && b[i] <= '9':
		i = skipDigits(b, i)
	default:
		return 0, invalidJSON(from, "invalid number")
	}
	if i < len(b) && b[i] == '.' {
		n := skipDigits(b, i+1)
		if n == i+1 {
			return 0, invalidJSON(from, "invalid number")
		}
		i = n
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := skipDigits(b, i)
		if n == i {
			return 0, invalidJSON(from, "invalid number")
		}
		i = n
	}
	return i, nil
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// skipIntegers walks elements of an array that are plain whole numbers followed
// by a comma, as prompts of token ids are, and returns where the first other
// element begins.
func skipIntegers(b []byte, i int) int {
	for {
		from := i
		for i < len(b) && b[i]-'0' <= 9 {
			i++
		}
		if i == from || i >= len(b) || b[i] != ',' || b[from] == '0' && i > from+1 {
			return from
		}
		if i++; i < len(b) && b[i] == ' ' {
			i++
		}
		if i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
	}
}

func skipLiteral(b []byte, i int, lit string) (int, *Error) {
	if len(b)-i < len(lit) || string(b[i:i+len(lit)]) != lit {
		return 0, invalidJSON(i, "invalid literal")
	}
	return i + len(lit), nil
}

// skipScalar walks anything but an object or an array.
func skipScalar(b []byte, i int) (int, *Error) {
	if i >= len(b) {
		return 0, invalidJSON(len(b), "unexpected end")
	}
	switch c := b[i]; {
	case c == '"':
		end, _, err := skipString(b, i)
		return end, err
	case c == '-' || c-'0' <= 9:
		return skipNumber(b, i)
	case c == 't':
		return skipLiteral(b, i, "true")
	case c == 'f':
		return skipLiteral(b, i, "false")
	case c == 'n':
		return skipLiteral(b, i, "null")
	}
	return 0, invalidJSON(i, "unexpected character")
}

// skipKey walks a key and its colon, up to the first byte of the value.
func skipKey(b []byte, i int) (value int, err *Error) {
	if i >= len(b) || b[i] != '"' {
		return 0, invalidJSON(i, "expected a key")
	}
	end, _, err := skipString(b, i)
	if err != nil {
		return 0, err
	}
	if end = skipSpace(b, end); end >= len(b) || b[end] != ':' {
		return 0, invalidJSON(end, "expected a colon")
	}
	return skipSpace(b, end+1), nil
}

// nesting is a stack of open objects (1) and arrays (0).
type nesting struct {
	kind  [MaxDepth / 64]uint64
	depth int
}

func (n *nesting) push(object bool) {
	w, bit := n.depth>>6, uint64(1)<<(n.depth&63)
	if object {
		n.kind[w] |= bit
	} else {
		n.kind[w] &^= bit
	}
	n.depth++
}

func (n *nesting) object() bool {
	d := n.depth - 1
	return n.kind[d>>6]>>(d&63)&1 != 0
}

// skipValue walks one value that stands depth levels deep.
func skipValue(b []byte, i, depth int) (int, *Error) {
	if i >= len(b) || b[i] != '{' && b[i] != '[' {
		return skipScalar(b, i)
	}
	var open nesting
	var err *Error
	for {
		// A value begins at i.
		if i < len(b) && (b[i] == '{' || b[i] == '[') {
			if depth+open.depth >= MaxDepth {
				return 0, invalidJSON(i, "nested too deep")
			}
			object := b[i] == '{'
			open.push(object)
			i = skipSpace(b, i+1)
			if i >= len(b) || b[i] != closing(object) {
				if !object {
					i = skipIntegers(b, i)
				} else if i, err = skipKey(b, i); err != nil {
					return 0, err
				}
				continue
			}
			i++
			open.depth--
		} else if i, err = skipScalar(b, i); err != nil {
			return 0, err
		}
		// A value ended at i.
		if i, err = open.next(b, i); err != nil || open.depth == 0 {
			return i, err
		}
	}
}

// next walks what follows a value: closing brackets, then the comma and, in an
// object, the next key. It returns where the next value begins, or the end of
// all when nothing is open.
func (n *nesting) next(b []byte, i int) (int, *Error) {
	for n.depth > 0 {
		i = skipSpace(b, i)
		if i >= len(b) {
			return 0, invalidJSON(len(b), "unexpected end")
		}
		object := n.object()
		switch b[i] {
		case closing(object):
			i++
			n.depth--
			continue
		case ',':
			i = skipSpace(b, i+1)
			if object {
				return skipKey(b, i)
			}
			return i, nil
		}
		return 0, invalidJSON(i, "expected a comma or a closing bracket")
	}
	return i, nil
}

func closing(object bool) byte {
	if object {
		return '}'
	}
	return ']'
}
