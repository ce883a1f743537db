package analyze

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kvasir-router/kvasir/host/replay"
	"github.com/kvasir-router/kvasir/host/telemetry/placements"
)

// Workload is what was read of a file.
type Workload struct {
	Format      string // decision log, mooncake, weka or openai
	Prompts     []Prompt
	BlockTokens int
	Bodies      []Body // of format openai
	Skipped     int    // requests whose prompts are not known
}

// ErrFormat is wrapped by every error about the contents of a file.
var ErrFormat = errors.New("analyze: unknown or bad file")

// maxLine bounds one line of a file.
const maxLine = 64 << 20

// Open reads a file of JSON lines, compressed if its name ends in .gz: a decision log with
// placements, a Mooncake or WEKA trace, or request bodies of the OpenAI API (one in each line, or
// in its member "body" or "request").
func Open(path string) (*Workload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("analyze: %w", err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%w: %s: %v", ErrFormat, path, err)
		}
	}
	return Read(in)
}

// Read is Open for a stream.
func Read(in io.Reader) (*Workload, error) {
	r := bufio.NewReaderSize(in, 1<<20)
	head, err := firstLine(r)
	if err != nil {
		return nil, err
	}
	switch _, hashes := head["hash_ids"]; {
	case hashes:
		t, err := replay.ReadMooncake(r)
		return fromTrace("mooncake", t, err)
	case head["c"] != nil && head["h"] != nil:
		c, err := replay.ReadWEKA(r, replay.Filter{})
		return fromTrace("weka", &replay.Trace{BlockTokens: replay.WEKABlock, Conversations: c}, err)
	case head["decision_id"] != nil:
		return fromLog(r)
	}
	return fromBodies(r)
}

// firstLine returns the members of the first object, and reads nothing.
func firstLine(r *bufio.Reader) (map[string]json.RawMessage, error) {
	for n := 4 << 10; ; n *= 4 {
		b, err := r.Peek(n)
		b, _, whole := bytes.Cut(bytes.TrimLeft(b, " \t\r\n"), []byte("\n"))
		var m map[string]json.RawMessage
		if json.Unmarshal(b, &m) == nil {
			return m, nil
		}
		if whole || err != nil && err != bufio.ErrBufferFull {
			return nil, fmt.Errorf("%w: the first line is no JSON object", ErrFormat)
		}
		if err == bufio.ErrBufferFull { // a line longer than the buffer: a body
			return map[string]json.RawMessage{}, nil
		}
	}
}

// fromTrace orders the requests of a trace by their beginning; those of one conversation
// follow each other after their think time.
func fromTrace(format string, t *replay.Trace, err error) (*Workload, error) {
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	w := &Workload{Format: format, BlockTokens: t.BlockTokens}
	for _, r := range inOrder(t.Conversations) {
		w.Prompts = append(w.Prompts, Prompt{Chain: r.Blocks, Tokens: r.Length(t.BlockTokens)})
	}
	return w, nil
}

// fromLog reads a decision log. Prompts of different namespaces and keys never have
// equal blocks.
func fromLog(r io.Reader) (*Workload, error) {
	w := &Workload{Format: "decision log"}
	var all []*placements.Record
	err := placements.Read(r, func(rec *placements.Record) error {
		if rec.Placement.Exact && rec.Placement.BlockTokens > 0 {
			all = append(all, rec)
			w.BlockTokens = max(w.BlockTokens, rec.Placement.BlockTokens)
		} else {
			w.Skipped++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	for _, rec := range all {
		w.Prompts = append(w.Prompts, Prompt{Chain: rec.Placement.Every(w.BlockTokens), Tokens: rec.Placement.PromptTokens})
	}
	return w, nil
}

// bodyLine is a line of request bodies.
type bodyLine struct {
	Body, Request json.RawMessage
}

// request is what is read of a body.
type request struct {
	Messages, Prompt, Input, System, Instructions, Tools json.RawMessage
}

func fromBodies(r io.Reader) (*Workload, error) {
	w := &Workload{Format: "openai"}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<20), maxLine)
	for n := 1; s.Scan(); n++ {
		raw := bytes.TrimSpace(s.Bytes())
		if len(raw) == 0 {
			continue
		}
		var l bodyLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("%w: line %d: %v", ErrFormat, n, err)
		}
		for _, inner := range [][]byte{l.Body, l.Request} {
			if len(inner) > 0 && inner[0] == '{' {
				raw = inner
			}
		}
		b, ok, err := bodyOf(raw)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %v", ErrFormat, n, err)
		}
		if !ok {
			w.Skipped++
			continue
		}
		w.Bodies = append(w.Bodies, b)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	w.Prompts, w.BlockTokens = Prompts(w.Bodies)
	return w, nil
}

// bodyOf returns the prompt of a request body, false if it has none.
func bodyOf(raw []byte) (b Body, ok bool, err error) {
	var q request
	if err := json.Unmarshal(raw, &q); err != nil {
		return b, false, err
	}
	var text strings.Builder
	for _, part := range []json.RawMessage{q.System, q.Instructions, q.Prompt, q.Input, q.Messages} {
		text.Write(part)
	}
	return Body{Text: strings.Clone(text.String()), Tools: bytes.Clone(q.Tools)}, text.Len() > 0, nil
}
