// Package replay reads recorded workloads, generates workloads of the same shape
// where there is no recording, and computes what the best possible router could
// have reused. It represents prompts only as chains of block names.
package replay

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

// Request is one request of a conversation.
type Request struct {
	// Blocks is the chain of the prompt's whole blocks: Blocks[i] names the prompt up to
	// and including block i. Requests share its memory: it must not be changed.
	Blocks []uint64
	Tokens int     // of the prompt, including the last partial block; 0 = the blocks' tokens
	Output int     // tokens that were generated
	Think  float64 // seconds between the previous answer and this request
}

// Length returns the tokens of the prompt, with blocks of blockTokens.
func (q *Request) Length(blockTokens int) int {
	if q.Tokens > 0 {
		return q.Tokens
	}
	return len(q.Blocks) * blockTokens
}

// Conversation is a sequence of requests, each sent after the previous answer.
type Conversation struct {
	Name     string
	Tenant   string
	Start    float64 // seconds from the beginning of the load to the first request
	Requests []Request
}

// Trace is a workload: conversations in order of Start. Requests of a conversation
// are a closed loop, conversations are an open one.
type Trace struct {
	Name          string
	BlockTokens   int // tokens of a block
	Conversations []Conversation
	// SlotSeconds is the resolution of the recording's times: a Start is the beginning
	// of a slot of that length. 0 = exact.
	SlotSeconds float64
	// Turnless reports that the recording does not tell which requests continue a
	// conversation.
	Turnless bool
}

// Spread returns the trace with each Start at a random time within its slot, the
// same for the same seed. The conversations are copied, their requests are shared.
func (t *Trace) Spread(seed uint64) *Trace {
	out := *t
	out.Conversations = slices.Clone(t.Conversations)
	if t.SlotSeconds == 0 {
		return &out
	}
	r := rand.New(rand.NewPCG(seed, 7))
	for i := range out.Conversations {
		out.Conversations[i].Start += t.SlotSeconds * r.Float64()
	}
	out.SlotSeconds = 0
	out.sort()
	return &out
}

// Poisson lets the conversations begin at random, rate a second, in a random order
// of the conversations. It changes t; the requests stay.
func (t *Trace) Poisson(rate float64, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 11))
	r.Shuffle(len(t.Conversations), func(i, j int) {
		t.Conversations[i], t.Conversations[j] = t.Conversations[j], t.Conversations[i]
	})
	at := 0.0
	for i := range t.Conversations {
		at += r.ExpFloat64() / rate
		t.Conversations[i].Start = at
	}
	t.SlotSeconds = 0
}

// sort orders the conversations by Start, equal ones as they are.
func (t *Trace) sort() {
	slices.SortStableFunc(t.Conversations, func(a, b Conversation) int { return cmp.Compare(a.Start, b.Start) })
}

// Requests returns the number of requests.
func (t *Trace) Requests() (n int) {
	for i := range t.Conversations {
		n += len(t.Conversations[i].Requests)
	}
	return n
}

// Filter selects conversations of a recording, in file order.
type Filter struct {
	MinRequests, MaxRequests int // per conversation
	MaxBlocks                int // of any prompt; a conversation with a longer one is dropped
	CutBlocks                int // of any prompt; a conversation ends before a longer one
	Skip                     int // conversations at the beginning, of those that are not dropped
	Conversations            int // at most
}

// ErrFormat is wrapped by every error about the contents of a trace.
var ErrFormat = errors.New("replay: bad trace")

// maxLine bounds one line of a trace file.
const maxLine = 16 << 20

// wekaLine is one request of the WEKA agentic trace; its README beside the
// file documents the fields. h lists [first block id, count] pairs of 64-token
// blocks, local to the conversation.
type wekaLine struct {
	Conversation string     `json:"c"`
	In           int        `json:"in"`
	Out          int        `json:"out"`
	Think        float64    `json:"think"`
	Tool         int        `json:"tool"`
	Sys          int        `json:"sys"`
	Runs         [][2]int64 `json:"h"`
}

// WEKABlock is the block size of the WEKA trace in tokens.
const WEKABlock = 64

// OpenWEKA reads a WEKA agentic trace (JSON lines, gzip when the name ends in
// .gz).
func OpenWEKA(path string, f Filter) ([]Conversation, error) {
	return open(path, func(r io.Reader) ([]Conversation, error) { return ReadWEKA(r, f) })
}

// open calls read with a trace file, decompressed when its name ends in .gz.
func open[T any](path string, read func(io.Reader) (T, error)) (t T, err error) {
	file, err := os.Open(path)
	if err != nil {
		return t, fmt.Errorf("replay: %w", err)
	}
	defer file.Close()
	if !strings.HasSuffix(path, ".gz") {
		return read(file)
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		return t, fmt.Errorf("%w: %s: %v", ErrFormat, path, err)
	}
	return read(z)
}

// eachLine calls f with each line of a trace and its number, from 1. The line is valid
// until f returns. All errors wrap [ErrFormat]; those of f name the line.
func eachLine(r io.Reader, f func(b []byte, line int) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<20), maxLine)
	for line := 1; s.Scan(); line++ {
		if err := f(s.Bytes(), line); err != nil {
			return fmt.Errorf("%w: line %d: %v", ErrFormat, line, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return nil
}

// ReadWEKA reads a WEKA agentic trace. Conversations of equal tool and system
// prompt lengths share those leading blocks, as the trace's authors advise.
func ReadWEKA(r io.Reader, f Filter) ([]Conversation, error) {
	var (
		out  []Conversation
		cur  Conversation
		head wekaLine
		big  bool
		cut  bool // the rest of the conversation is dropped
		own  chainer

		skipped int
	)
	flush := func() {
		n := len(cur.Requests)
		if n > 0 && !big && n >= f.MinRequests && (f.MaxRequests == 0 || n <= f.MaxRequests) {
			if skipped++; skipped > f.Skip {
				out = append(out, cur)
			}
		}
		cur, big, cut, own = Conversation{}, false, false, chainer{}
	}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<20), maxLine)
	for line := 1; s.Scan(); line++ {
		var w wekaLine
		if err := json.Unmarshal(s.Bytes(), &w); err != nil {
			return nil, fmt.Errorf("%w: line %d: %v", ErrFormat, line, err)
		}
		if w.In < 0 || w.In > maxTokens || w.Out < 0 || w.Out > maxTokens || w.Think < 0 {
			return nil, fmt.Errorf("%w: line %d: %d tokens, %d out, think %g s", ErrFormat, line, w.In, w.Out, w.Think)
		}
		if line > maxRequests {
			return nil, fmt.Errorf("%w: line %d: %v", ErrFormat, line, errTooMany)
		}
		if w.Conversation != cur.Name {
			flush()
			if f.Conversations > 0 && len(out) >= f.Conversations {
				return out, nil
			}
			cur.Name, head = w.Conversation, w
		}
		if cut {
			continue
		}
		blocks, err := wekaBlocks(&w, &head, max(f.MaxBlocks, f.CutBlocks))
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %v", ErrFormat, line, err)
		}
		if cut = blocks == nil && f.CutBlocks > 0; cut {
			continue
		}
		big = big || blocks == nil
		cur.Requests = append(cur.Requests, Request{Blocks: own.add(blocks), Tokens: w.In, Output: w.Out, Think: w.Think})
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	flush()
	if f.Conversations > 0 && len(out) > f.Conversations {
		out = out[:f.Conversations]
	}
	return out, nil
}

// wekaBlocks returns the block names of one request; nil when there are more than
// most (0 = no limit).
func wekaBlocks(w, head *wekaLine, most int) ([]uint64, error) {
	shared := uint64((head.Tool + head.Sys) / WEKABlock)
	own := hashName(w.Conversation)
	common := hashName(fmt.Sprintf("shared %d %d", head.Tool, head.Sys))
	blocks := []uint64{}
	for _, run := range w.Runs {
		if run[1] < 0 || int64(len(blocks))+run[1] > 1<<20 {
			return nil, fmt.Errorf("run of %d blocks behind %d", run[1], len(blocks))
		}
		if most > 0 && len(blocks)+int(run[1]) > most {
			return nil, nil
		}
		for i := range run[1] {
			name := mix(own, uint64(run[0]+i))
			if at := uint64(len(blocks)); at < shared {
				name = mix(common, at)
			}
			blocks = append(blocks, name)
		}
	}
	return blocks, nil
}

func hashName(s string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix is the finalizer of SplitMix64 over both values.
func mix(a, b uint64) uint64 {
	x := a + (b+1)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
