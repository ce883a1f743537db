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
// prefix up to block i.
type mooncakeLine struct {
	Timestamp float64  `json:"timestamp"` // ms, in slots of 3 s
	In        int      `json:"input_length"`
	Out       int      `json:"output_length"`
	Blocks    []uint64 `json:"hash_ids"`
}

// mooncakeSlot is the resolution of the trace's timestamps in seconds.
const mooncakeSlot = 3

// OpenMooncake reads a Mooncake trace (JSON lines, gzip when the name ends in
// .gz): an open load, each request a conversation of its own. Its timestamps are
// the beginnings of slots; see [Trace.Spread].
func OpenMooncake(path string) (*Trace, error) { return open(path, ReadMooncake) }

// ReadMooncake is OpenMooncake for a stream.
func ReadMooncake(r io.Reader) (*Trace, error) {
	t := &Trace{BlockTokens: MooncakeBlock, SlotSeconds: mooncakeSlot, Turnless: true}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<20), maxLine)
	for line := 1; s.Scan(); line++ {
		var m mooncakeLine
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			return nil, fmt.Errorf("%w: line %d: %v", ErrFormat, line, err)
		}
		if m.In < 1 || m.Out < 0 || m.Timestamp < 0 || len(m.Blocks) > m.In {
			return nil, fmt.Errorf("%w: line %d: %d tokens in %d blocks, %d out, at %g ms", ErrFormat, line, m.In, len(m.Blocks),
				m.Out, m.Timestamp)
		}
		t.Conversations = append(t.Conversations, Conversation{
			Name: fmt.Sprint("request ", line), Start: m.Timestamp / 1000,
			Requests: []Request{{Blocks: new(chainer).add(m.Blocks), Tokens: m.In, Output: max(1, m.Out)}},
		})
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	t.sort()
	return t, nil
}
