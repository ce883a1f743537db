package jsonscan

import "unicode/utf8"

// Unquote appends the text of the string literal raw (with its quotes, valid
// JSON) to dst. ok is false where decoders differ in what they make of it: an
// unpaired surrogate or bytes that are not UTF-8.
func Unquote(dst, raw []byte) (text []byte, ok bool) {
	s := raw[1 : len(raw)-1]
	for i := 0; i < len(s); {
		c := s[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		c = s[i+1]
		i += 2
		switch c {
		case 'u':
			r := rune(hex4(s[i:]))
			i += 4
			if r >= 0xd800 && r < 0xe000 {
				if r >= 0xdc00 || i+6 > len(s) || s[i] != '\\' || s[i+1] != 'u' {
					return dst, false
				}
				lo := rune(hex4(s[i+2:]))
				if lo < 0xdc00 || lo >= 0xe000 {
					return dst, false
				}
				r = (r-0xd800)<<10 | (lo - 0xdc00) + 0x10000
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		default:
			dst = append(dst, c)
		}
	}
	return dst, utf8.Valid(dst)
}

// hex4 returns the value of the first four bytes of s, -1 if they are not four
// hexadecimal digits.
func hex4(s []byte) int {
	if len(s) < 4 {
		return -1
	}
	v := 0
	for _, h := range s[:4] {
		switch {
		case h >= '0' && h <= '9':
			v = v<<4 | int(h-'0')
		case h|0x20 >= 'a' && h|0x20 <= 'f':
			v = v<<4 | int(h|0x20-'a'+10)
		default:
			return -1
		}
	}
	return v
}
