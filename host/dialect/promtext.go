package dialect

import (
	"bytes"
	"strconv"
)

// sample is one line of a scrape. name and labels are views into the text.
type sample struct {
	name   []byte
	labels []byte // between the braces, as written
	value  float64
}

// eachSample calls f for every sample line of a scrape in the Prometheus text
// format or OpenMetrics whose name wanted accepts. Lines that cannot be read are
// passed over: a scrape is worth what can be read of it.
func eachSample(text []byte, wanted func(name []byte) bool, f func(s *sample)) {
	for len(text) > 0 {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		end := bytes.IndexAny(line, "{ \t")
		if end <= 0 || !wanted(line[:end]) {
			continue
		}
		s := sample{name: line[:end]}
		rest := line[end:]
		if rest[0] == '{' {
			n := labelsEnd(rest)
			if n < 0 {
				continue
			}
			s.labels, rest = rest[1:n], rest[n+1:]
		}
		field := bytes.TrimLeft(rest, " \t")
		if i := bytes.IndexAny(field, " \t\r"); i >= 0 {
			field = field[:i] // a time stamp or an exemplar follows
		}
		v, err := strconv.ParseFloat(string(field), 64)
		if err != nil {
			continue
		}
		s.value = v
		f(&s)
	}
}

// labelsEnd returns the index of the closing brace of b, which begins with the
// opening one, or -1. A brace inside quotes does not count.
func labelsEnd(b []byte) int {
	quoted := false
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i
		}
	}
	return -1
}

// label returns the value of a label, unescaped, "" if there is none.
func (s *sample) label(name string) string {
	b := s.labels
	for len(b) > 0 {
		eq := bytes.IndexByte(b, '=')
		if eq < 0 || eq+1 >= len(b) || b[eq+1] != '"' {
			return ""
		}
		key := bytes.TrimLeft(b[:eq], " ,")
		b = b[eq+2:]
		end := 0
		for end < len(b) && b[end] != '"' {
			if b[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(b) {
			return ""
		}
		if string(key) == name {
			return unescape(b[:end])
		}
		b = b[end+1:]
	}
	return ""
}

func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) {
			i++
			if b[i] == 'n' {
				out = append(out, '\n')
				continue
			}
		}
		out = append(out, b[i])
	}
	return string(out)
}
