package proxy

import "bytes"

// streamTail keeps the last bytes of a stream of events, to know its last event
// and whether it is between events. The zero value is ready.
type streamTail struct {
	b [32]byte
	n int
}

var (
	doneMark  = []byte("data: [DONE]")
	doneShort = []byte("data:[DONE]")
)

// add takes the next piece, which is not empty, and reports whether the last event
// so far is [DONE].
func (t *streamTail) add(p []byte) bool {
	if len(p) >= len(t.b) {
		t.n = copy(t.b[:], p[len(p)-len(t.b):])
	} else {
		if over := t.n + len(p) - len(t.b); over > 0 {
			t.n = copy(t.b[:], t.b[over:t.n])
		}
		t.n += copy(t.b[t.n:], p)
	}
	i := t.n
	for i > 0 && (t.b[i-1] == '\n' || t.b[i-1] == '\r') {
		i--
	}
	if i == 0 || i == t.n || t.b[i-1] != ']' {
		return false
	}
	return endsLine(t.b[:i], doneMark) || endsLine(t.b[:i], doneShort)
}

// endsLine reports whether the last line of b is line.
func endsLine(b, line []byte) bool {
	rest, ok := bytes.CutSuffix(b, line)
	return ok && (len(rest) == 0 || rest[len(rest)-1] == '\n' || rest[len(rest)-1] == '\r')
}

// ended reports whether the stream is between two events.
func (t *streamTail) ended() bool {
	b := t.b[:t.n]
	return bytes.HasSuffix(b, []byte("\n\n")) || bytes.HasSuffix(b, []byte("\n\r\n")) || bytes.HasSuffix(b, []byte("\r\r"))
}

// endsWith reports whether the last line so far is over and ends with one of ends.
func (t *streamTail) endsWith(ends [][]byte) bool {
	b := bytes.TrimRight(t.b[:t.n], "\r\n")
	if len(b) == t.n {
		return false
	}
	for _, e := range ends {
		if bytes.HasSuffix(b, e) {
			return true
		}
	}
	return false
}
