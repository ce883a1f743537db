package bpe

import (
	"encoding/json"
	"unicode/utf8"
)

// byteOf and charOf are GPT-2's mapping between bytes and the printable
// characters that represent them in a vocabulary. byteOf is -1 for characters
// that represent no byte (openai/gpt-2, src/encoder.py, bytes_to_unicode).
var byteOf [0x144]int16
var charOf [256]rune

func init() {
	for i := range byteOf {
		byteOf[i] = -1
	}
	others := rune(256)
	for b := range 256 {
		c := rune(b)
		if !(b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174) {
			c = others
			others++
		}
		byteOf[c] = int16(b)
		charOf[b] = c
	}
}

// appendBytes appends the bytes that the characters of s represent; ok is false
// if a character represents no byte.
func appendBytes(dst []byte, s string) (out []byte, ok bool) {
	for _, c := range s {
		if int(c) >= len(byteOf) || byteOf[c] < 0 {
			return dst, false
		}
		dst = append(dst, byte(byteOf[c]))
	}
	return dst, true
}

// byteLevel reads a string of the file as bytes. It is equivalent to text
// followed by appendBytes, in one step. If ok is false, the string contains a
// character that represents no byte, and raw is the string itself.
func (r *reader) byteLevel(dst []byte) (out []byte, raw string, ok bool, err error) {
	if r.peek() != '"' {
		return dst, "", false, r.fail("expected a string")
	}
	out = dst
	for i := r.p + 1; i < len(r.b); {
		c := r.b[i]
		if c == '"' {
			r.p = i + 1
			return out, "", true, nil
		}
		if c >= 33 && c <= 126 && c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		w := 2 // every other character that represents a byte has two bytes
		if c < 0xC2 || c > 0xC5 || i+w >= len(r.b) || r.b[i+1]&0xC0 != 0x80 {
			break
		}
		x := int(c&0x1F)<<6 | int(r.b[i+1]&0x3F)
		if x >= len(byteOf) || byteOf[x] < 0 {
			break
		}
		out = append(out, byte(byteOf[x]))
		i += w
	}
	return r.escaped(dst)
}

// escaped is byteLevel for a string with escapes or non-ASCII characters.
func (r *reader) escaped(dst []byte) (out []byte, raw string, ok bool, err error) {
	q, err := r.quoted()
	if err != nil {
		return dst, "", false, err
	}
	var s string
	if !utf8.Valid(q) {
		return dst, "", false, r.fail("string is not UTF-8")
	}
	if err := json.Unmarshal(q, &s); err != nil {
		return dst, "", false, r.fail(err.Error())
	}
	if out, ok = appendBytes(dst, s); ok {
		return out, "", true, nil
	}
	return dst, s, false, nil
}
