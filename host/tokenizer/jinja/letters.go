package jinja

import (
	"strings"
	"unicode"
)

// caseCost is the cost of changing the case of a byte relative to copying it.
const caseCost = 16

// upper and lower map characters one by one. Python maps some characters to
// several (ß, ligatures, Greek with iota) or according to their position in the
// word (final sigma); these are rejected.
func (r *run) upper(s string) string {
	r.refuseRunes(s, func(c rune) bool {
		switch {
		case c == 0xdf, c == 0x149, c == 0x1f0, c == 0x390, c == 0x3b0, c == 0x587, c >= 0x1e96 && c <= 0x1e9a,
			c >= 0x1f50 && c <= 0x1ffc, c >= 0xfb00 && c <= 0xfb17:
			return true
		}
		return false
	})
	return strings.ToUpper(s)
}

func (r *run) lower(s string) string {
	r.refuseRunes(s, func(c rune) bool { return c == 0x130 || c == 0x3a3 })
	return strings.ToLower(s)
}

func (r *run) refuseRunes(s string, bad func(rune) bool) {
	r.charge(caseCost * len(s))
	for _, c := range s {
		if c >= 0x80 && bad(c) {
			unsupported("the other case of %U", c)
		}
	}
}

// capitalize implements str.capitalize: the first character in title case, the
// rest in lower case.
func (r *run) capitalize(s string) string {
	for _, c := range s {
		n := len(string(c))
		r.upper(s[:n])
		return string(unicode.ToTitle(c)) + r.lower(s[n:])
	}
	return s
}

// title implements Jinja2's filter: a word begins after white space, -, (, {, [ or <.
func (r *run) title(s string) string {
	r.upper(s)
	r.lower(s)
	var b strings.Builder
	begin := true
	for _, c := range s {
		if begin {
			b.WriteRune(unicode.ToUpper(c))
		} else {
			b.WriteRune(unicode.ToLower(c))
		}
		begin = IsSpace(c) || strings.ContainsRune("-({[<", c)
	}
	return b.String()
}
