package jinja

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', 'a': '\a', 'v': '\v', '\\': '\\',
	'\'': '\'', '"': '"'}

// unescape resolves the backslashes of a string literal at pos as Python does
// (the unicode_escape codec).
func unescape(s string, pos int) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b = append(b, s[i])
			continue
		}
		i++
		if c, ok := escapes[s[i]]; ok {
			b = append(b, c)
			continue
		}
		switch c := s[i]; {
		case c == '\n':
		case c == 'x' || c == 'u' || c == 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			b = utf8.AppendRune(b, codePoint(s[i+1:], n, 16, pos))
			i += n
		case c >= '0' && c <= '7':
			n := 1
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				n++
			}
			b = utf8.AppendRune(b, codePoint(s[i:], n, 8, pos))
			i += n - 1
		case c == 'N':
			unsupported(`the escape \N`)
		default:
			b = append(b, '\\', c)
		}
	}
	return string(b)
}

// codePoint reads n digits of s. It rejects surrogates, which have no UTF-8 form.
func codePoint(s string, n, base, pos int) rune {
	if len(s) < n {
		syntax(pos, "truncated escape")
	}
	x, err := strconv.ParseUint(s[:n], base, 32)
	if err != nil || x > utf8.MaxRune {
		syntax(pos, "bad escape")
	}
	if !utf8.ValidRune(rune(x)) {
		unsupported("a surrogate in a string literal")
	}
	return rune(x)
}
