package proxy

import (
	"bytes"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// maxHeld bounds the bytes of an event that are held back: a usage event is a few
// hundred bytes long and has its empty choices near the beginning.
const maxHeld = 4 << 10

// usageFilter removes the usage event that the router requested from a stream whose
// client did not request it. It holds back only an event in progress that may be
// that one, until the first element of its choices rules that out. All other bytes
// pass as they come and unchanged. The zero value is ready.
//
// Lines end with LF, CR or CRLF, an event with an empty line.
type usageFilter struct {
	passing bool // the event in progress is not the usage event
	inEvent bool // bytes of an event came
	cr      bool // the last byte was a CR: an LF after it belongs to it
	inLine  bool // the line in progress holds bytes
	held    []byte
	spare   []byte
	removed int
}

func (f *usageFilter) reset() {
	*f = usageFilter{held: f.held[:0], spare: f.spare[:0]}
}

// filter takes the next piece and returns what passes: before, then out. out uses
// p's storage, before is valid until the next call. keyed is the result of
// usageScanner.feed for p: whole events without the key pass at no cost.
func (f *usageFilter) filter(p []byte, keyed bool) (before, out []byte) {
	if !f.inEvent && !f.cr && bytes.HasSuffix(p, newlines) && !(keyed && mayReportUsage(p)) {
		return nil, p
	}
	from, o := 0, 0 // start of the event in progress; end of what passes
	for i := 0; i < len(p); {
		end, next := f.line(p, i)
		i = next
		if end < 0 {
			continue
		}
		before, o = f.event(p, from, end, o, before)
		from = end
	}
	if from < len(p) {
		before, o = f.partial(p, from, o, before)
	}
	return before, p[:o]
}

var newlines = []byte("\n\n")

// line walks from i to the end of a line or of p. end is the end of an event, -1 if
// none ends.
func (f *usageFilter) line(p []byte, i int) (end, next int) {
	end = -1
	if f.cr {
		f.cr = false
		ended := !f.inLine
		f.inLine = false
		if p[i] == '\n' {
			i++
		}
		if ended {
			return i, i
		}
		if i == len(p) {
			return end, i
		}
	}
	n := bytes.IndexByte(p[i:], '\n')
	if n < 0 {
		n = len(p) - i
	}
	if r := bytes.IndexByte(p[i:i+n], '\r'); r >= 0 {
		f.inLine = f.inLine || r > 0
		f.cr = true
		return end, i + r + 1
	}
	f.inLine = f.inLine || n > 0
	if i += n; i == len(p) {
		return end, i
	}
	i++
	if !f.inLine {
		return i, i
	}
	f.inLine = false
	return end, i
}

// event passes or removes the whole event held+p[from:end].
func (f *usageFilter) event(p []byte, from, end, o int, before []byte) ([]byte, int) {
	part := p[from:end]
	if !f.passing {
		whole := part
		if len(f.held) > 0 {
			f.held = append(f.held, part...)
			whole = f.held
		}
		if isUsageEvent(whole) {
			f.removed++
			f.held, f.inEvent = f.held[:0], false
			return before, o
		}
		if len(f.held) > 0 {
			before, part = f.release(), nil
		}
	}
	f.passing, f.inEvent = false, false
	return before, o + copy(p[o:], part)
}

// partial passes or holds back the event in progress, held+p[from:]. Held bytes
// belong to an event that began before p, so no byte of p passed before them.
func (f *usageFilter) partial(p []byte, from, o int, before []byte) ([]byte, int) {
	part := p[from:]
	f.inEvent = true
	if !f.passing && len(f.held) > 0 {
		f.held = append(f.held, part...)
		if f.passing = notUsageEvent(f.held); f.passing {
			return f.release(), o
		}
		return before, o
	}
	if f.passing = f.passing || notUsageEvent(part); !f.passing {
		f.held = append(f.held, part...)
		return before, o
	}
	return before, o + copy(p[o:], part)
}

func (f *usageFilter) release() []byte {
	out := f.held
	f.held, f.spare = f.spare[:0], out
	return out
}

// finish ends the stream and returns the held bytes, unless they are the usage
// event.
func (f *usageFilter) finish() []byte {
	if len(f.held) == 0 {
		return nil
	}
	if isUsageEvent(f.held) {
		f.removed++
		f.held = f.held[:0]
		return nil
	}
	return f.release()
}

// mayReportUsage reports whether a piece has the key "usage" with a value other
// than null, or with an incomplete value.
func mayReportUsage(p []byte) bool {
	for {
		i := indexUsage(p)
		if i < 0 {
			return false
		}
		p = p[i+len(usageKey):]
		v := bytes.TrimLeft(p, " \t")
		if len(v) == 0 || v[0] != ':' {
			return true
		}
		if v = bytes.TrimLeft(v[1:], " \t"); !bytes.HasPrefix(v, null) {
			return true
		}
	}
}

var (
	null       = []byte("null")
	dataField  = []byte("data:")
	choicesKey = []byte(`"choices"`)
)

// isUsageEvent reports whether a whole event is the one that reports usage: it has
// empty choices and a usage object.
func isUsageEvent(e []byte) bool {
	data, ok := bytes.CutPrefix(bytes.TrimRight(e, "\r\n"), dataField)
	if !ok {
		return false
	}
	var u llmapi.Usage
	return llmapi.ParseUsage(data, &u) && u.ChoicesEmpty
}

// notUsageEvent reports whether an event that begins with e cannot be that one.
func notUsageEvent(e []byte) bool {
	n := min(len(e), len(dataField))
	if !bytes.Equal(e[:n], dataField[:n]) || len(e) > maxHeld {
		return true
	}
	if e = bytes.TrimLeft(e[n:], " "); len(e) == 0 {
		return false
	}
	if e[0] != '{' {
		return true
	}
	for {
		i := bytes.Index(e, choicesKey)
		if i < 0 {
			return false
		}
		e = bytes.TrimLeft(e[i+len(choicesKey):], " \t")
		if len(e) > 0 && e[0] != ':' {
			continue // a value, not the key
		}
		return hasElement(e)
	}
}

// hasElement reports whether the text after the key of a list, colon first, cannot
// be an empty list.
func hasElement(e []byte) bool {
	for _, want := range []byte(":[]") {
		if e = bytes.TrimLeft(e, " \t"); len(e) == 0 {
			return false
		}
		if e[0] != want {
			return true
		}
		e = e[1:]
	}
	return false
}
