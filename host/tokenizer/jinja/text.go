package jinja

import (
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// SpanMin is the length in bytes from which a string keeps its identity (its
// Text) through a render. A shorter one costs less to copy than a piece of its
// own costs every stage after.
const SpanMin = 64

// Meter counts the bytes of memory that values decoded together hold, with what
// renders keep with them later. The zero Meter is ready; safe for concurrent
// use.
type Meter struct{ n atomic.Int64 }

// Bytes returns the bytes counted so far. It never falls.
func (m *Meter) Bytes() int64 { return m.n.Load() }

func (m *Meter) add(n int) {
	if m != nil {
		m.n.Add(int64(n))
	}
}

// Text is an immutable string with what templates asked about it. Every answer
// is a pure function of S. Safe for concurrent use.
type Text struct {
	S  string
	ID uint64 // unique in the process; equal IDs mean equal S

	meter *Meter
	mu    sync.Mutex
	runes int              // characters, -1: not counted; guarded by mu
	has   map[string]bool  // contains; guarded by mu
	memo  map[string]Value // replace, by its arguments; guarded by mu
}

// Bounds of what one Text keeps.
const (
	maxTextHas  = 16
	maxTextMemo = 8
	maxKeyBytes = 64
	entryBytes  = 64  // a map entry with its key's header, about
	textBytes   = 128 // a Text without its bytes
)

var lastText atomic.Uint64

func newText(s string, m *Meter) *Text {
	m.add(len(s) + textBytes)
	return &Text{S: s, ID: lastText.Add(1), runes: -1, meter: m}
}

// Own returns a string value that keeps its identity if it is long. m counts
// its memory and may be nil.
func Own(s string, m *Meter) Value {
	if len(s) < SpanMin {
		m.add(len(s))
		return Str(s)
	}
	return Value{k: kindString, s: s, p: newText(s, m)}
}

// contains tells whether x is in t and whether that was known.
func (t *Text) contains(r *run, x string) bool {
	t.mu.Lock()
	has, ok := t.has[x]
	t.mu.Unlock()
	if ok {
		return has
	}
	r.charge(len(t.S))
	has = strings.Contains(t.S, x)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.has) < maxTextHas && len(x) < maxKeyBytes {
		if t.has == nil {
			t.has = map[string]bool{}
		}
		if _, ok := t.has[x]; !ok {
			t.has[strings.Clone(x)] = has
			t.meter.add(entryBytes + len(x))
		}
	}
	return has
}

// length returns the number of characters.
func (t *Text) length(r *run) int {
	t.mu.Lock()
	n := t.runes
	t.mu.Unlock()
	if n < 0 {
		r.charge(len(t.S))
		n = utf8.RuneCountInString(t.S)
		t.mu.Lock()
		t.runes = n
		t.mu.Unlock()
	}
	return n
}

// replaced returns t with every old replaced by new, which keeps its identity.
func (t *Text) replaced(r *run, old, new string) Value {
	key := old + "\x00" + new
	t.mu.Lock()
	v, ok := t.memo[key]
	t.mu.Unlock()
	if ok {
		return v
	}
	s := r.replaceString(t.S, old, new, -1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, ok := t.memo[key]; ok {
		return v
	}
	if len(t.memo) >= maxTextMemo || len(key) > maxKeyBytes {
		return Str(s)
	}
	if t.memo == nil {
		t.memo = map[string]Value{}
	}
	v = Own(s, t.meter)
	t.meter.add(entryBytes + len(key))
	t.memo[key] = v
	return v
}

// AddValues counts n values of a list that is built of decoded ones.
func (m *Meter) AddValues(n int) { m.add((n + 1) * valueBytes) }
