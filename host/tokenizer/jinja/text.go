package jinja

import (
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// SpanMin is the length in bytes from which a string keeps its identity (its
// Text) through a render. Copying a shorter string costs less than its own piece
// would cost in every later stage.
const SpanMin = 64

// Meter counts the bytes of memory of values that are decoded together, and of
// the data that renders cache with them later. The zero Meter is ready to use.
// It is safe for concurrent use.
type Meter struct{ n atomic.Int64 }

// Bytes returns the bytes counted so far. It never decreases.
func (m *Meter) Bytes() int64 { return m.n.Load() }

func (m *Meter) add(n int) {
	if m != nil {
		m.n.Add(int64(n))
	}
}

// Text is an immutable string with cached results of operations on it. Every
// result is a pure function of S. It is safe for concurrent use.
type Text struct {
	S  string
	ID uint64 // unique in the process; equal IDs mean equal S

	meter *Meter
	mu    sync.Mutex
	runes int              // number of characters, -1: not counted; guarded by mu
	has   map[string]bool  // results of contains; guarded by mu
	memo  map[string]Value // results of replace by arguments; guarded by mu
}

// Limits on the data that one Text caches.
const (
	maxTextHas  = 16
	maxTextMemo = 8
	maxKeyBytes = 64
	entryBytes  = 64  // approximate size of a map entry with its key's header
	textBytes   = 128 // size of a Text without its bytes
)

var lastText atomic.Uint64

func newText(s string, m *Meter) *Text {
	m.add(textBytes)
	return &Text{S: s, ID: lastText.Add(1), runes: -1, meter: m}
}

// Own returns a string value that keeps its identity if it is long. m counts
// its memory and may be nil.
func Own(s string, m *Meter) Value {
	m.add(len(s))
	return shared(s, m)
}

// shared is Own for a string whose bytes another value counts.
func shared(s string, m *Meter) Value {
	if len(s) < SpanMin {
		return Str(s)
	}
	return Value{k: kindString, s: s, p: newText(s, m)}
}

// contains reports whether x is in t and whether the result was cached.
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

// replaced returns t with every old replaced by new. The result keeps its identity.
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

// AddValues counts n values of a list that consists of decoded values.
func (m *Meter) AddValues(n int) { m.add((n + 1) * valueBytes) }
