package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// Space returns the offset of the first byte from i on that is no white space.
func Space(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stops returns a mask whose lowest set bit is the high bit of the first byte
// of x (little endian) that is a quote, a backslash or a control character; 0 if
// there is none. Higher bits may be wrong.
func stops(x uint64) uint64 {
	q := x ^ 0x02*ones // the quote becomes 0x20, control characters stay below it, nothing else falls below 0x21
	s := x ^ '\\'*ones // the backslash becomes 0
	return ((q-0x21*ones)&^q | (s-ones)&^s) & highs
}

// shortRun is how many bytes of a string are walked by words before its blocks: most
// keys and short values end within it.
const shortRun = 32

// String returns the offset after the closing quote of the string whose opening
// quote is at i, and whether it holds an escape.
func String(b []byte, i int) (end int, escaped bool, err *Error) {
	i++
	blocksAt := i + shortRun
	for {
		for i+8 <= len(b) {
			if i >= blocksAt {
				blocksAt = len(b)
				more, done := false, false
				if i, more, done, err = blocks(b, i); err != nil {
					return 0, false, err
				}
				if escaped = escaped || more; done {
					return i, escaped, nil
				}
				continue
			}
			if m := stops(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return 0, false, fault(len(b), "unfinished string")
		}
		c := b[i]
		if c == '"' {
			return i + 1, escaped, nil
		}
		if c != '\\' {
			if c < ' ' {
				return 0, false, fault(i, "control character in string")
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
			return 0, false, fault(i, "invalid escape")
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

// number walks the number that begins at i.
func number(b []byte, i int) (int, *Error) {
	from := i
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && b[i] >= '1' && b[i] <= '9':
		i = digits(b, i)
	default:
		return 0, fault(from, "invalid number")
	}
	if i < len(b) && b[i] == '.' {
		n := digits(b, i+1)
		if n == i+1 {
			return 0, fault(from, "invalid number")
		}
		i = n
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := digits(b, i)
		if n == i {
			return 0, fault(from, "invalid number")
		}
		i = n
	}
	return i, nil
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// integers walks elements of an array that are plain whole numbers followed
// by a comma, as prompts of token ids are, and returns where the first other
// element begins.
func integers(b []byte, i int) int {
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
			i = Space(b, i)
		}
	}
}

// literal walks true, false or null.
func literal(b []byte, i int, lit string) (int, *Error) {
	if len(b)-i < len(lit) || string(b[i:i+len(lit)]) != lit {
		return 0, fault(i, "invalid literal")
	}
	return i + len(lit), nil
}

// scalar walks anything but an object or an array.
func scalar(b []byte, i int) (int, *Error) {
	if i >= len(b) {
		return 0, fault(len(b), "unexpected end")
	}
	switch c := b[i]; {
	case c == '"':
		end, _, err := String(b, i)
		return end, err
	case c == '-' || c-'0' <= 9:
		return number(b, i)
	case c == 't':
		return literal(b, i, "true")
	case c == 'f':
		return literal(b, i, "false")
	case c == 'n':
		return literal(b, i, "null")
	}
	return 0, fault(i, "unexpected character")
}

// key walks a key and its colon, and returns the offset of the first byte of the
// value. It sets n.found if the key is or may be n.name.
func (n *nesting) key(b []byte, i int) (value int, err *Error) {
	if i >= len(b) || b[i] != '"' {
		return 0, fault(i, "expected a key")
	}
	end, escaped, err := String(b, i)
	if err != nil {
		return 0, err
	}
	if escaped || string(b[i+1:end-1]) == n.name {
		n.found = true
	}
	if end = Space(b, end); end >= len(b) || b[end] != ':' {
		return 0, fault(end, "expected a colon")
	}
	return Space(b, end+1), nil
}
