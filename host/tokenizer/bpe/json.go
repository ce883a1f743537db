package bpe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// reader walks a JSON text once. A tokenizer.json is about ten megabytes of
// short strings; reading them in place makes loading fast.
type reader struct {
	b []byte
	p int
}

var errJSON = errors.New("malformed JSON")

func (r *reader) fail(what string) error {
	return fmt.Errorf("bpe: %w at byte %d: %s", errJSON, r.p, what)
}

// peek skips white space and returns the next byte, or 0 at the end.
func (r *reader) peek() byte {
	for r.p < len(r.b) {
		switch c := r.b[r.p]; c {
		case ' ', '\n', '\r', '\t':
			r.p++
		default:
			return c
		}
	}
	return 0
}

func (r *reader) want(c byte) error {
	if r.peek() != c {
		return r.fail("expected " + string(rune(c)))
	}
	r.p++
	return nil
}

// list walks the members of an object or array between open and close; f must
// consume one member.
func (r *reader) list(open, end byte, f func() error) error {
	if err := r.want(open); err != nil {
		return err
	}
	if r.peek() == end {
		r.p++
		return nil
	}
	for {
		if err := f(); err != nil {
			return err
		}
		switch r.peek() {
		case ',':
			r.p++
		case end:
			r.p++
			return nil
		default:
			return r.fail("expected , or " + string(rune(end)))
		}
	}
}

// object calls f with the name of every member; f must consume the value.
func (r *reader) object(f func(name string) error) error {
	return r.list('{', '}', func() error {
		name, err := r.text()
		if err != nil {
			return err
		}
		if err := r.want(':'); err != nil {
			return err
		}
		return f(name)
	})
}

// text reads a string.
func (r *reader) text() (string, error) {
	raw, err := r.quoted()
	if err != nil {
		return "", err
	}
	if in := raw[1 : len(raw)-1]; bytes.IndexByte(in, '\\') < 0 && utf8.Valid(in) {
		return string(in), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", r.fail(err.Error())
	}
	return s, nil
}

// quoted skips a string and returns it with its quotes.
func (r *reader) quoted() ([]byte, error) {
	if r.peek() != '"' {
		return nil, r.fail("expected a string")
	}
	for i := r.p + 1; i < len(r.b); i++ {
		switch r.b[i] {
		case '"':
			raw := r.b[r.p : i+1]
			r.p = i + 1
			return raw, nil
		case '\\':
			i++
		}
	}
	return nil, r.fail("string without end")
}

const maxDepth = 100 // nested values; real files have fewer than ten

// value skips any value and returns it. The caller validates its contents.
func (r *reader) value() (json.RawMessage, error) {
	st := r.p
	depth := 0
	for {
		switch c := r.peek(); c {
		case 0:
			return nil, r.fail("value without end")
		case '"':
			if _, err := r.quoted(); err != nil {
				return nil, err
			}
		case '{', '[':
			if depth++; depth > maxDepth {
				return nil, r.fail("nested too deeply")
			}
			r.p++
		case '}', ']':
			if depth--; depth < 0 {
				return nil, r.fail("expected a value")
			}
			r.p++
		case ',', ':':
			if depth == 0 {
				return nil, r.fail("expected a value")
			}
			r.p++
		default:
			if !r.word() {
				return nil, r.fail("unexpected character")
			}
		}
		if depth == 0 {
			return r.b[st:r.p], nil
		}
	}
}

// word skips a number or a literal.
func (r *reader) word() bool {
	st := r.p
	for r.p < len(r.b) {
		c := r.b[r.p]
		if c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') && (c|32 < 'a' || c|32 > 'z') {
			break
		}
		r.p++
	}
	return r.p > st
}

// number reads an integer of at most 32 bits.
func (r *reader) number() (uint32, error) {
	r.peek()
	st := r.p
	n := uint64(0)
	for ; r.p < len(r.b) && r.b[r.p]-'0' <= 9; r.p++ {
		n = n*10 + uint64(r.b[r.p]-'0')
		if n > 1<<32-1 {
			return 0, r.fail("number too large")
		}
	}
	if r.p == st {
		return 0, r.fail("expected an unsigned number")
	}
	return uint32(n), nil
}
