package chat

import (
	"bytes"

	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// Limits of pieces and of the bytes that may wait for a cut.
const (
	// textPiece is the minimum length of the pieces of a completions prompt:
	// prompts with a common beginning share the pieces up to about the position
	// at which they differ.
	textPiece = 2 << 10
	// maxPending is the number of bytes that may wait for a cut before pieces
	// without a cut are counted. After maxCutless of them the rest of the prompt
	// is encoded at once and not stored. Otherwise a prompt without any cut would
	// be scanned as often as it has pieces.
	maxPending = 32 << 10
	maxCutless = 16
)

// walk computes the prompt in w with the tree of o.
func (m *Model) walk(w *work, o *memo, q *tokenizer.Query, p *tokenizer.Prompt) string {
	if w.given {
		hashWhole(o.seed, q, p, w.ids)
		return ""
	}
	if w.affix && !m.affixes.known {
		return reasonSpecial
	}
	m.split(w)
	t := o.tree(m, w, q.Sizes)
	x, i := m.follow(w, o, t)
	w.buf = pendingText(w.buf[:0], w.pieces[:i], x.pending)
	x, reason := m.extend(w, t, x, i)
	if reason != "" {
		return reason
	}
	m.publish(w, o, t)
	return m.tail(w, t, x, q, p)
}

// split creates w.pieces from the output. Literals are split before added tokens,
// so that a short reply merged into one does not hide a shared beginning.
func (m *Model) split(w *work) {
	if w.splitAt == nil {
		w.splitAt = func(at int) {
			if at > w.from {
				w.literal(w.lit[w.from:at])
				w.from = at
			}
		}
	}
	for i := range w.out.Pieces {
		p := &w.out.Pieces[i]
		if p.Text != nil {
			w.pieces = append(w.pieces, piece{text: p.Text, off: p.Off, n: p.N})
			continue
		}
		w.lit, w.from = w.out.Buf[p.Off:p.Off+p.N], 0
		m.cutter.Starts(w.lit, w.splitAt)
		w.literal(w.lit[w.from:])
	}
	w.lit = nil
}

// literal adds a literal; it splits a long one into several pieces at line ends.
func (w *work) literal(lit []byte) {
	for len(lit) > 2*textPiece {
		n := textPiece
		if k := bytes.IndexByte(lit[n:2*textPiece], '\n'); k >= 0 {
			n += k
		}
		w.pieces = append(w.pieces, piece{lit: lit[:n], n: n})
		lit = lit[n:]
	}
	if len(lit) > 0 {
		w.pieces = append(w.pieces, piece{lit: lit, n: len(lit)})
	}
}

// follow descends as far as the tree has the pieces. It returns the last node and
// the number of pieces on its path.
func (m *Model) follow(w *work, o *memo, t *tree) (*node, int) {
	now := m.epoch.Load()
	x, i := t.root, 0
	for ; i < len(w.pieces); i++ {
		p := &w.pieces[i]
		y := x.next.Load()
		if y == nil || !y.is(p) {
			o.mu.RLock()
			y = t.nodes[keyOf(x, p)]
			o.mu.RUnlock()
			if y == nil || !y.is(p) {
				break
			}
			x.next.Store(y)
		}
		if y.stamp.Load() != now {
			y.stamp.Store(now)
		}
		x = y
	}
	m.counters.nodes.Add(int64(i))
	return x, i
}

// extend creates nodes for the pieces from i on after x, in w.created, and does not
// publish them. w.buf holds the bytes after the last cut, before and after the call.
func (m *Model) extend(w *work, t *tree, x *node, i int) (*node, string) {
	cutless := 0
	for ; i < len(w.pieces); i++ {
		p := &w.pieces[i]
		waiting := len(w.buf)
		y := &node{up: x, n: p.n, off: p.off}
		if p.text != nil {
			y.text = p.text.ID
			w.buf = append(w.buf, p.bytes()...)
		} else {
			y.lit = string(p.lit)
			w.buf = append(w.buf, p.lit...)
		}
		c := m.cutter.Cut(w.buf)
		if c == 0 {
			y.tokens, y.tail = x.tokens, x.tail
			if waiting > maxPending {
				if cutless++; cutless > maxCutless {
					return x, m.rest(w, i+1)
				}
			}
		} else {
			cutless = 0
			var err error
			if w.tokens, err = m.encoder.Encode(append(w.tokens[:0], x.tail...), w.buf[:c]); err != nil {
				return nil, reasonEncode
			}
			m.counters.encodedBytes.Add(int64(c))
			t.advance(y, x, w.tokens)
			w.buf = append(w.buf[:0], w.buf[c:]...)
		}
		y.pending = len(w.buf)
		w.created = append(w.created, y)
		x = y
	}
	m.counters.newNodes.Add(int64(len(w.created)))
	return x, ""
}

// rest adds the pieces from i on to w.buf.
func (m *Model) rest(w *work, i int) string {
	for ; i < len(w.pieces); i++ {
		if p := &w.pieces[i]; p.text != nil {
			w.buf = append(w.buf, p.bytes()...)
		} else {
			w.buf = append(w.buf, p.lit...)
		}
	}
	return ""
}

// publish inserts the created nodes into the tree. If another request has inserted
// an equal node in the meantime, that node stays.
func (m *Model) publish(w *work, o *memo, t *tree) {
	if len(w.created) == 0 {
		return
	}
	now := m.epoch.Load()
	added := int64(0)
	o.mu.Lock()
	x := w.created[0].up
	if o.gone || t.gone || x.gone {
		o.mu.Unlock()
		return
	}
	for _, y := range w.created {
		y.up = x
		k := y.key()
		if z := t.nodes[k]; z != nil {
			if z.text != y.text || z.lit != y.lit {
				break // two literals with the same hash: the first stays
			}
			x = z
			continue
		}
		y.stamp.Store(now)
		t.nodes[k] = y
		x.kids++
		x.next.Store(y)
		o.ring.add(entry{n: y, t: t})
		added += y.bytes()
		x = y
	}
	o.bytes.Add(added)
	o.mu.Unlock()
	m.grow(added)
	w.touched = true
}

// tail encodes the text after the last cut, which a longer prompt may change and
// which is not stored, and completes the prompt.
func (m *Model) tail(w *work, t *tree, x *node, q *tokenizer.Query, p *tokenizer.Prompt) string {
	var err error
	if w.tokens, err = m.encoder.Encode(append(w.tokens[:0], x.tail...), w.buf); err != nil {
		return reasonEncode
	}
	m.counters.encodedBytes.Add(int64(len(w.buf)))
	if w.affix {
		w.tokens = append(w.tokens, m.affixes.suffix...)
	}
	p.Tokens = x.tokens + len(w.tokens) - len(x.tail)
	for i, size := range q.Sizes {
		lane := t.lane(size)
		dst := t.chain(p.Chains[i], x, lane)
		tip := t.seed
		if len(dst) > 0 {
			tip = dst[len(dst)-1]
		}
		p.Chains[i], _ = blockhash.Append(dst, tip, w.tokens[len(x.tail)-x.tokens%size:], size)
	}
	return ""
}
