package replay

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
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
// .gz): an open load, each request a conversation of its own. Timestamps are
// spread within their slots, the same way each time.
func OpenMooncake(path string) ([]Conversation, error) {
	return open(path, ReadMooncake)
}

// ReadMooncake is OpenMooncake for a stream.
func ReadMooncake(r io.Reader) ([]Conversation, error) {
	var out []Conversation
	spread := rand.New(rand.NewPCG(7, 7))
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
		out = append(out, Conversation{
			Name: fmt.Sprint("request ", line), Start: m.Timestamp/1000 + mooncakeSlot*spread.Float64(),
			Requests: []Request{{Blocks: m.Blocks, Tokens: m.In, Output: max(1, m.Out)}},
		})
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	slices.SortStableFunc(out, func(a, b Conversation) int { return cmp.Compare(a.Start, b.Start) })
	return out, nil
}
