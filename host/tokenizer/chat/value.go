package chat

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/kvasir-router/kvasir/host/internal/jsonscan"
	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// kind is the kind as which a raw JSON value is decoded.
type kind uint8

const (
	kindJSON           kind = iota // unchanged
	kindTools                      // the member tools
	kindToolsMessages              // the member tools of Anthropic's API
	kindToolsResponses             // the member tools of the responses API
	kindMessage                    // a message; + 1 for a chat request, + 2 for parts
	_
	_
	_
	kindSystem // a system prompt; + 1 for parts
	_
	kindTurn // a message of Anthropic's API; + 1 for parts
	_
	kindItem // an input item of the responses API; + 1 for parts
	_
	kindUser // a text as a user's message; + 1 for parts
	_
	kinds
)

// of returns the kind for a template that takes content as parts, or as text.
func (k kind) of(parts bool) kind {
	if parts {
		return k + 1
	}
	return k
}

func messageKind(chat, parts bool) kind {
	k := kindMessage
	if chat {
		k++
	}
	if parts {
		k += 2
	}
	return k
}

// decoded is the result of decoding a raw value. It is immutable.
type decoded struct {
	key   rawKey // of the raw value; zero if it is not stored
	v     jinja.Value
	role  role
	text  jinja.Value // text of a system prompt, before it becomes a message
	piece itemPiece   // set for an item
	open  bool        // set for an item to be continued
	fault string      // reason why a prompt with it is not exact
	entry *value      // its place in the memo, or nil
}

// value is a place in a memo for a decoded value. Eviction clears its body, so that
// a guess that still refers to it holds no memory.
type value struct {
	kind  kind
	hash  uint64
	body  atomic.Pointer[decoded]
	meter jinja.Meter

	// next are the values that followed this one, latest first. These guesses avoid
	// finding the end of the next value and hashing it.
	next    [2]atomic.Pointer[value]
	stamp   atomic.Uint32 // epoch of the last use
	charged atomic.Int64  // bytes counted, evicted
}

// evicted is the charge of an evicted value.
const evicted = -1

// Approximate sizes of the memo's data besides the bytes of values: the structs,
// their map entry and their place in the ring.
const (
	valueBytes = 368
	nodeBytes  = 288
	memoBytes  = 2048
)

var hashSeed = maphash.MakeSeed()

// hashOf returns the key of raw among a memo's values. Kinds must not collide.
func hashOf(raw []byte, k kind) uint64 {
	return maphash.Bytes(hashSeed, raw)*uint64(2*kinds+1) + uint64(k)
}

// decode decodes raw as kind k without any memo. If shared is set, the result may
// share the memory of raw.
func decode(raw []byte, k kind, m *jinja.Meter, shared bool) *decoded {
	read := jinja.DecodeJSON
	if shared {
		read = jinja.DecodeJSONShared
	}
	v, err := read(raw, m)
	if err != nil {
		return &decoded{fault: reasonMessage}
	}
	switch k {
	case kindJSON:
		return &decoded{v: v}
	case kindTools, kindToolsMessages, kindToolsResponses:
		v, fault := normalizeTools(v, k, m)
		return &decoded{v: v, fault: fault}
	case kindSystem, kindSystem + 1, kindTurn, kindTurn + 1, kindItem, kindItem + 1, kindUser, kindUser + 1:
		return decodeAPI(v, k, m)
	}
	n := normalizer{chat: (k-kindMessage)&1 != 0, parts: (k-kindMessage)&2 != 0, m: m}
	msg := n.message(v)
	d := &decoded{v: msg.v, fault: msg.fault}
	switch {
	case msg.developer:
		d.role = roleDeveloper
	case msg.system:
		d.role = roleSystem
	}
	return d
}

// decodeAPI decodes a value that is converted to messages.
func decodeAPI(v jinja.Value, k kind, m *jinja.Meter) *decoded {
	n := normalizer{chat: true, m: m}
	switch {
	case k >= kindUser:
		n.parts = k > kindUser
		return n.madeMessage("user", v, jinja.None)
	case k >= kindItem:
		n.parts = k > kindItem
		return n.item(v)
	case k >= kindTurn:
		n.parts = k > kindTurn
		return n.turn(v)
	}
	n.parts = k > kindSystem
	if _, blocks := v.Items(); !blocks && !v.IsString() {
		return &decoded{fault: reasonField}
	}
	text, ok := n.systemText(v)
	if !ok {
		return &decoded{fault: reasonField}
	}
	return n.system(text)
}

// next returns the value at b[i] and its end. last is the previous value. A nil
// value means that the value has no end.
func (m *Model) next(w *work, o *memo, b []byte, i int, k kind, last *value) (*decoded, int) {
	if o != nil {
		if last == nil {
			last = &o.first
		}
		for j := range last.next {
			s := last.next[j].Load()
			if s == nil || s.kind != k {
				continue
			}
			d := s.body.Load()
			if d == nil || !d.key.begins(w, b[i:]) {
				continue
			}
			m.counters.guessed.Add(1)
			m.use(w, s)
			return d, i + d.key.n
		}
	}
	end := jsonscan.End(b, i)
	if end <= i {
		return nil, end
	}
	d := m.lookup(w, o, b[i:end], k)
	// An object's bytes determine its end, so a guess cannot match a part of a
	// longer one; messages are objects.
	if o != nil && d.entry != nil && d.entry != last && b[i] == '{' && last.next[0].Load() != d.entry {
		last.next[1].Store(last.next[0].Load())
		last.next[0].Store(d.entry)
	}
	return d, end
}

// use records that a request uses s.
func (m *Model) use(w *work, s *value) {
	if now := m.epoch.Load(); s.stamp.Load() != now {
		s.stamp.Store(now)
	}
	w.values = append(w.values, s)
}

// lookup returns raw decoded as k, from the memo if it is there.
func (m *Model) lookup(w *work, o *memo, raw []byte, k kind) *decoded {
	if o == nil {
		return decode(raw, k, nil, false)
	}
	h := hashOf(raw, k)
	o.mu.RLock()
	s := o.values[h]
	o.mu.RUnlock()
	if s != nil {
		if d := s.body.Load(); d != nil && s.kind == k && d.key.n == len(raw) && d.key.begins(w, raw) {
			m.counters.found.Add(1)
			m.use(w, s)
			return d
		}
	}
	m.counters.decoded.Add(1)
	m.counters.decodedBytes.Add(int64(len(raw)))
	s = &value{kind: k, hash: h}
	key := w.key(raw)
	if key.text != nil {
		raw = key.text
	}
	d := decode(raw, k, &s.meter, key.text != nil)
	if d.fault != "" {
		return d // an invalid value is not stored, because its request fails
	}
	d.key, d.entry = key, s
	s.body.Store(d)
	return m.keep(w, o, s, d)
}

// bytes returns the memory of s, whose body is d.
func (s *value) bytes(d *decoded) int64 {
	return int64(len(d.key.text)) + valueBytes + s.meter.Bytes()
}

// keep stores a value in the memo, unless another request was first; then it
// returns the value of that request.
func (m *Model) keep(w *work, o *memo, s *value, d *decoded) *decoded {
	n := s.bytes(d)
	s.charged.Store(n)
	o.mu.Lock()
	if x := o.values[s.hash]; x != nil {
		if e := x.body.Load(); e != nil && x.kind == s.kind && e.key.equal(&d.key) {
			o.mu.Unlock()
			m.use(w, x)
			return e
		}
	}
	if o.gone {
		o.mu.Unlock()
		return d
	}
	s.stamp.Store(m.epoch.Load())
	o.values[s.hash] = s
	o.ring.add(entry{v: s})
	o.bytes.Add(n)
	o.mu.Unlock()
	m.grow(n)
	w.touched = true
	w.values = append(w.values, s)
	return d
}

// settle counts the memory that rendering cached with the values of the request.
func (w *work) settle(m *Model, o *memo) {
	for _, s := range w.values {
		d := s.body.Load()
		if d == nil {
			continue
		}
		now := s.bytes(d)
		if now == s.charged.Load() {
			continue
		}
		o.mu.Lock()
		was := s.charged.Load()
		if !o.gone && was != evicted && was < now {
			s.charged.Store(now)
			o.bytes.Add(now - was)
			m.grow(now - was)
			w.touched = true
		}
		o.mu.Unlock()
	}
}
