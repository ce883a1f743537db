package proxy

import (
	"bytes"

	"github.com/kvasir-router/kvasir/host/internal/jsonscan"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// maxUsage bounds a usage object that is read: real ones have a few hundred
// bytes.
const maxUsage = 4 << 10

var (
	usageKey = []byte(`"usage"`)
	// usageRest is the search text: a quote, the key's first byte, occurs in JSON
	// every few bytes and would stop the search each time.
	usageRest = usageKey[1:]
)

// indexUsage returns the index of usageKey in p, -1 if p does not have it.
func indexUsage(p []byte) int {
	for from := 1; from < len(p); {
		i := bytes.Index(p[from:], usageRest)
		if i < 0 {
			return -1
		}
		if from += i; p[from-1] == '"' {
			return from - 1
		}
		from++
	}
	return -1
}

// usageScanner finds the usage objects in the body of an answer as it passes, JSON
// or a stream of events, wherever its pieces are cut. A quote inside a JSON string
// is escaped, so `"usage"` followed by a colon is a key, not text of the model. The
// last object counts: some engines report running totals with each event. A piece
// without the key costs one byte search. The zero value is ready.
type usageScanner struct {
	state   uint8
	matched uint8  // bytes of usageKey that the last piece ended with
	object  []byte // `{"usage":` and what came of the object

	found bool
	usage llmapi.Usage
}

const (
	usSearch uint8 = iota
	usColon        // the key was seen
	usValue        // and its colon
	usObject       // inside the object
)

var usagePrefix = []byte(`{"usage":`)

func (u *usageScanner) reset() {
	*u = usageScanner{object: u.object[:0]}
}

// feed takes the next piece and reports whether it has a part of a usage key or of
// its value.
func (u *usageScanner) feed(p []byte) (found bool) {
	if found = u.state != usSearch || u.matched > 0; !found {
		if p = u.search(p); u.state == usSearch {
			return u.matched > 0
		}
	}
	for len(p) > 0 {
		switch u.state {
		case usSearch:
			p = u.search(p)
		case usObject:
			p = u.take(p)
		default:
			p = u.between(p)
		}
	}
	return true
}

// search returns what follows the key.
func (u *usageScanner) search(p []byte) []byte {
	for u.matched > 0 && len(p) > 0 {
		switch {
		case p[0] == usageKey[u.matched]:
			u.matched++
			p = p[1:]
		case p[0] == '"':
			u.matched, p = 1, p[1:]
		default:
			u.matched = 0
		}
		if int(u.matched) == len(usageKey) {
			u.matched, u.state = 0, usColon
			return p
		}
	}
	if i := indexUsage(p); i >= 0 {
		u.state = usColon
		return p[i+len(usageKey):]
	}
	if u.matched == 0 {
		tail := p[max(0, len(p)-len(usageKey)+1):]
		if i := bytes.LastIndexByte(tail, '"'); i >= 0 && bytes.HasPrefix(usageKey, tail[i:]) {
			u.matched = uint8(len(tail) - i)
		}
	}
	return nil
}

func (u *usageScanner) between(p []byte) []byte {
	switch c := p[0]; {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		return p[1:]
	case c == ':' && u.state == usColon:
		u.state = usValue
		return p[1:]
	case c == '{' && u.state == usValue:
		u.state = usObject
		u.object = append(u.object[:0], usagePrefix...)
		return p
	}
	u.state = usSearch
	return p
}

// take adds a piece to the object and returns what follows the object, nil while
// it is not over.
func (u *usageScanner) take(p []byte) []byte {
	had := len(u.object)
	u.object = append(u.object, p[:min(len(p), maxUsage)]...)
	end := -1
	if bytes.IndexByte(u.object[had:], '}') >= 0 {
		end = jsonscan.End(u.object, len(usagePrefix))
	}
	switch {
	case end >= 0:
		u.object = u.object[:end]
		u.end()
		return p[end-had:]
	case len(u.object) > maxUsage:
		u.state = usSearch
	}
	return nil
}

func (u *usageScanner) end() {
	u.state = usSearch
	if len(u.object) > maxUsage {
		return
	}
	u.object = append(u.object, '}')
	var v llmapi.Usage
	if llmapi.ParseUsage(u.object, &v) && v.Counts {
		if u.found {
			v.Merge(&u.usage)
		}
		u.found, u.usage = true, v
	}
}
