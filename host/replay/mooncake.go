package replay

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// MooncakeBlock is the block size of the Mooncake traces in tokens.
const MooncakeBlock = 512

// mooncakeLine is one request of a Mooncake trace. hash_ids[i] identifies the whole
// prefix up to block i. The members after it are this project's: [WriteMooncake] writes
// them for workloads that are no open load, or have other blocks.
type mooncakeLine struct {
	Timestamp float64  `json:"timestamp"` // ms, in slots of 3 s
	In        int      `json:"input_length"`
	Out       int      `json:"output_length"`
	Blocks    []uint64 `json:"hash_ids"`

	BlockTokens  int     `json:"block_tokens,omitempty"` // of all lines; then times are exact
	Conversation string  `json:"conversation,omitempty"`
	Tenant       string  `json:"tenant,omitempty"`
	Think        float64 `json:"think,omitempty"` // seconds since the conversation's previous answer
}

// mooncakeSlot is the resolution of the trace's timestamps in seconds.
const mooncakeSlot = 3

// OpenMooncake reads a Mooncake trace (JSON lines, gzip when the name ends in
// .gz): an open load, each request a conversation of its own. Its timestamps are
// the beginnings of slots; see [Trace.Spread].
func OpenMooncake(path string) (*Trace, error) { return open(path, ReadMooncake) }

// ReadMooncake is OpenMooncake for a stream.
func ReadMooncake(r io.Reader) (*Trace, error) {
	m := mooncake{at: map[string]int{},
		trace: &Trace{BlockTokens: MooncakeBlock, SlotSeconds: mooncakeSlot, Turnless: true}}
	err := eachLine(r, func(b []byte, line int) error {
		if err := m.line(b, line); err != nil {
			return err
		}
		if line > maxRequests {
			return errTooMany
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.trace.sort()
	return m.trace, nil
}

// mooncake is a trace being read.
type mooncake struct {
	trace  *Trace
	at     map[string]int // index of a conversation
	chains []chainer      // of the conversations of at
}

func (m *mooncake) line(b []byte, n int) error {
	var l mooncakeLine
	if err := json.Unmarshal(b, &l); err != nil {
		return err
	}
	if l.In < 1 || l.Out < 0 || l.Timestamp < 0 || len(l.Blocks) > l.In || l.In > maxTokens || l.Out > maxTokens ||
		l.Think < 0 || l.BlockTokens < 0 {
		return fmt.Errorf("%d tokens in %d blocks, %d out, at %g ms", l.In, len(l.Blocks), l.Out, l.Timestamp)
	}
	if l.BlockTokens > 0 {
		if n > 1 && l.BlockTokens != m.trace.BlockTokens {
			return fmt.Errorf("blocks of %d tokens, those of the lines before have %d", l.BlockTokens, m.trace.BlockTokens)
		}
		m.trace.BlockTokens, m.trace.SlotSeconds = l.BlockTokens, 0
	}
	q := Request{Tokens: l.In, Output: max(1, l.Out), Think: l.Think}
	c := Conversation{Name: l.Conversation, Tenant: l.Tenant, Start: l.Timestamp / 1000}
	if l.Conversation == "" {
		q.Blocks = new(chainer).add(l.Blocks)
		c.Name, c.Requests = fmt.Sprint("request ", n), []Request{q}
		m.trace.Conversations = append(m.trace.Conversations, c)
		return nil
	}
	m.trace.Turnless = false
	i, ok := m.at[l.Conversation]
	if !ok {
		i = len(m.trace.Conversations)
		m.at[l.Conversation] = i
		m.trace.Conversations = append(m.trace.Conversations, c)
	}
	for len(m.chains) <= i {
		m.chains = append(m.chains, chainer{})
	}
	q.Blocks = m.chains[i].add(l.Blocks)
	m.trace.Conversations[i].Requests = append(m.trace.Conversations[i].Requests, q)
	return nil
}

// WriteMooncake writes a trace in Mooncake's form, with members of this project for what
// that form lacks. Requests of a conversation follow each other; all have the time of its
// beginning.
func WriteMooncake(w io.Writer, t *Trace) error {
	ids := map[uint64]uint64{}
	out := bufio.NewWriter(w)
	e := json.NewEncoder(out)
	for i := range t.Conversations {
		c := &t.Conversations[i]
		for k := range c.Requests {
			q := &c.Requests[k]
			l := mooncakeLine{Timestamp: 1000 * c.Start, In: max(1, q.Length(t.BlockTokens)), Out: q.Output,
				BlockTokens: t.BlockTokens, Conversation: c.Name, Tenant: c.Tenant, Think: q.Think,
				Blocks: make([]uint64, 0, len(q.Blocks))}
			for _, h := range q.Blocks {
				id, ok := ids[h]
				if !ok {
					id = uint64(len(ids))
					ids[h] = id
				}
				l.Blocks = append(l.Blocks, id)
			}
			if err := e.Encode(&l); err != nil {
				return fmt.Errorf("replay: %w", err)
			}
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}
