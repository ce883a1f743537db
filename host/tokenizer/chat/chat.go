// Package chat takes a request body to the hashes of its prompt's blocks: bodies
// of the responses and of Anthropic's API become the messages that vLLM makes of
// them, messages are normalized as vLLM does, the model's template is rendered, the
// prompt is encoded and its tokens are hashed block by block.
//
// Every request runs the whole template; nothing is assumed about it. What
// makes that cheap is kept per namespace in a memo and is exact by
// construction:
//
//   - a message is decoded and normalized once: the value is found again by
//     identical raw bytes, never by a hash alone;
//   - long strings are spans of immutable texts, so rendering does not copy them
//     (package jinja);
//   - tokens and hashes are found again by an identical sequence of rendered
//     pieces, up to a cut that no continuation can move (bpe's Cut).
//
// A conversation therefore costs its last turn. A body that an engine would take
// is never refused: what cannot be rendered exactly gives a Prompt that is not
// Exact, with the reason.
package chat

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// Config describes a model. Files and Encoder are required, unless Template is
// given instead of Files.
type Config struct {
	// Files holds tokenizer_config.json and, where the model has them,
	// chat_template.jinja and config.json. Read by New only.
	Files fs.FS
	// Encoder encodes text. One that has the methods of *bpe.Tokenizer beside
	// Encode (Cut and Starts, Affixes) lets prompts be encoded in parts and
	// completions get their BOS.
	Encoder tokenizer.Encoder
	// CacheIdentity seeds the chains of block hashes; event side and request
	// side use the same (see Identity).
	CacheIdentity string
	// Template replaces the template of Files, "" keeps it.
	Template string
	// ContentFormat is the engine's --chat-template-content-format: "" and
	// "auto" find out from the template, "string", "openai".
	ContentFormat string
	// TimeZone is where the engine's clock is, for templates that print the
	// date. nil means UTC, which is what containers have.
	TimeZone *time.Location
	// Now tells the time, nil means time.Now.
	Now func() time.Time
	// BudgetBytes bounds the memory of all memos. The default, 256 MiB, holds
	// some 400 conversations of 100k tokens; a conversation of 1k tokens takes
	// about 40 KB. The bound is kept at the end of each request that adds to a
	// memo.
	BudgetBytes int64
	// CheckEvery makes one request in so many a check (see Model.NextCheck).
	// The default is 1000: at 1 ms of a whole computation per 40 KB of prompt
	// that is a few percent of one core at most. Negative: no checks.
	CheckEvery int
}

func (c Config) withDefaults() Config {
	if c.BudgetBytes == 0 {
		c.BudgetBytes = 256 << 20
	}
	if c.CheckEvery == 0 {
		c.CheckEvery = 1000
	}
	if c.TimeZone == nil {
		c.TimeZone = time.UTC
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate reports all faults of c.
func (c Config) Validate() error {
	var faults []error
	if c.Encoder == nil {
		faults = append(faults, errors.New("chat: no encoder"))
	}
	if c.Files == nil && c.Template == "" {
		faults = append(faults, errors.New("chat: neither files nor a template"))
	}
	switch c.ContentFormat {
	case "", "auto", "string", "openai":
	default:
		faults = append(faults, fmt.Errorf("chat: content format %q, want auto, string or openai", c.ContentFormat))
	}
	if c.BudgetBytes < 0 {
		faults = append(faults, fmt.Errorf("chat: budget of %d bytes", c.BudgetBytes))
	}
	return errors.Join(faults...)
}

// cutter is an encoder that can encode a prompt in parts; see *bpe.Tokenizer.
type cutter interface {
	Cut(text []byte) int
	Starts(text []byte, f func(at int))
}

// affixer is an encoder that knows what encoding with special tokens puts
// around a text.
type affixer interface {
	Affixes() (prefix, suffix []uint32)
}

// Model is a template and a tokenizer with their memos. Safe for concurrent
// use. It starts no goroutine.
type Model struct {
	cfg      Config
	encoder  tokenizer.Encoder
	cutter   cutter // nil: prompts are encoded whole
	affixes  affixes
	template *template // nil: chat is not exact, for why
	tools    *template // used instead when a request has tools; mostly the same
	why      string
	special  []special // special tokens that templates may print

	mergeSystem bool   // Anthropic's API: system messages go to the front
	noThinking  string // Anthropic's API: the reasoning effort of disabled thinking

	mu    sync.RWMutex
	memos map[memoKey]*memo // guarded by mu

	bytes    atomic.Int64 // of all memos
	epoch    atomic.Uint32
	added    atomic.Int64 // bytes added since the epoch began
	evicting sync.Mutex

	distrusted atomic.Bool // a check differed
	checks     chan *Check
	counters   counters
	work       sync.Pool // of *work
}

// New loads a model. Errors: faults of cfg and of its files. A template that
// cannot be compiled exactly is no error: every prompt then is not Exact, with
// the reason, which Stats tells too.
func New(cfg Config) (*Model, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, encoder: cfg.Encoder, memos: map[memoKey]*memo{}, checks: make(chan *Check, maxWaitingChecks)}
	m.cutter, _ = cfg.Encoder.(cutter)
	m.work.New = func() any { return newWork() }
	m.epoch.Store(1)
	return m, m.load()
}

// Blocks tells the prompt of r, scanned for an operation that has a prompt, with the hashes of its whole blocks for every size of q. It does not
// refuse a body: what cannot be told exactly leaves p not Exact, with the
// reason, 0 tokens and no hashes. A Private query gets the tokens alone. The error is about q alone. p is reset first
// and does not refer to r or q afterwards.
func (m *Model) Blocks(r *llmapi.Request, q *tokenizer.Query, p *tokenizer.Prompt) error {
	p.Reset()
	if err := checkSizes(q.Sizes); err != nil {
		return err
	}
	n := m.counters.requests.Add(1)
	w := m.work.Get().(*work)
	w.now = m.cfg.Now().In(m.cfg.TimeZone)
	reason := m.blocks(w, r, q, p)
	check := reason == "" && !q.Private && m.cfg.CheckEvery > 0 && n%int64(m.cfg.CheckEvery) == 0
	m.finish(w, p, reason)
	if check {
		m.offer(r, q, p, w.now)
	}
	w.release()
	m.work.Put(w)
	m.trim()
	return nil
}

// finish settles p by reason.
func (m *Model) finish(w *work, p *tokenizer.Prompt, reason string) {
	m.counters.promptBytes.Add(int64(w.out.N))
	if reason != "" {
		p.Reset()
		p.Reason = reason
		m.counters.approximate.Add(1)
		return
	}
	p.Exact = true
	m.counters.tokens.Add(int64(p.Tokens))
}

// blocks returns why the prompt is not exact, "" if it is.
func (m *Model) blocks(w *work, r *llmapi.Request, q *tokenizer.Query, p *tokenizer.Prompt) string {
	if m.distrusted.Load() {
		return reasonDistrusted
	}
	if q.Private {
		return m.alone(w, r, p)
	}
	o := m.memoFor(q)
	if reason := m.prepare(w, r, o); reason != "" {
		return reason
	}
	if m.cutter == nil {
		return m.whole(w, o, q, p)
	}
	reason := m.walk(w, o, q, p)
	w.settle(m, o)
	return reason
}

// Tokens appends the prompt's tokens to dst, computed whole and without any
// memo: the slow way, for checks and tools. The error tells why they are not
// known exactly (a *InexactError).
func (m *Model) Tokens(r *llmapi.Request, dst []uint32) ([]uint32, error) {
	w := newWork()
	w.now = m.cfg.Now().In(m.cfg.TimeZone)
	if reason := m.prepare(w, r, nil); reason != "" {
		return dst, &InexactError{Reason: reason}
	}
	ids, reason := m.encodeWhole(w, dst)
	if reason != "" {
		return dst, &InexactError{Reason: reason}
	}
	return ids, nil
}

// Prompt returns the prompt's text, as Tokens encodes it; "" for a prompt of
// token ids.
func (m *Model) Prompt(r *llmapi.Request) (string, error) {
	w := newWork()
	w.now = m.cfg.Now().In(m.cfg.TimeZone)
	if reason := m.prepare(w, r, nil); reason != "" {
		return "", &InexactError{Reason: reason}
	}
	return string(w.text(nil)), nil
}

// InexactError tells why a prompt is not known exactly.
type InexactError struct{ Reason string }

func (e *InexactError) Error() string { return "chat: " + e.Reason }

// checkSizes refuses what is not 1 to MaxSizes distinct block sizes.
func checkSizes(sizes []int) error {
	if len(sizes) == 0 || len(sizes) > tokenizer.MaxSizes {
		return fmt.Errorf("chat: %d block sizes, want 1 to %d", len(sizes), tokenizer.MaxSizes)
	}
	for i, s := range sizes {
		if s < 1 || s > maxBlockTokens {
			return fmt.Errorf("chat: block size %d, want 1 to %d", s, maxBlockTokens)
		}
		for _, t := range sizes[:i] {
			if s == t {
				return fmt.Errorf("chat: block size %d twice", s)
			}
		}
	}
	return nil
}
