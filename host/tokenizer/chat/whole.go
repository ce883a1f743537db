package chat

import (
	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// whole computes the prompt in w at once, for encoders that cannot encode it in parts.
func (m *Model) whole(w *work, o *memo, q *tokenizer.Query, p *tokenizer.Prompt) string {
	ids, reason := m.encodeWhole(w, w.tokens[:0])
	if reason != "" {
		return reason
	}
	w.tokens = ids
	w.settle(m, o)
	hashWhole(o.seed, q, p, ids)
	return ""
}

// alone counts the tokens of the prompt of r, without any memo.
func (m *Model) alone(w *work, r *llmapi.Request, p *tokenizer.Prompt) string {
	if reason := m.prepare(w, r, nil); reason != "" {
		return reason
	}
	ids, reason := m.encodeWhole(w, w.tokens[:0])
	if reason != "" {
		return reason
	}
	w.tokens = ids
	p.Tokens = len(ids)
	return ""
}

// encodeWhole appends the tokens of the prompt in w to dst.
func (m *Model) encodeWhole(w *work, dst []uint32) ([]uint32, string) {
	if w.given {
		return append(dst, w.ids...), ""
	}
	if w.affix && !m.affixes.known {
		return dst, reasonSpecial
	}
	w.buf = w.text(w.buf[:0])
	if w.affix {
		dst = append(dst, m.affixes.prefix...)
	}
	ids, err := m.encoder.Encode(dst, w.buf)
	if err != nil {
		return dst, reasonEncode
	}
	m.counters.encodedBytes.Add(int64(len(w.buf)))
	if w.affix {
		ids = append(ids, m.affixes.suffix...)
	}
	return ids, ""
}

// hashWhole completes a prompt of ids.
func hashWhole(seed uint64, q *tokenizer.Query, p *tokenizer.Prompt, ids []uint32) {
	p.Tokens = len(ids)
	for i, size := range q.Sizes {
		p.Chains[i], _ = blockhash.Append(p.Chains[i][:0], seed, ids, size)
	}
}
