// Package chat computes the hashes of a prompt's blocks from a request body. It
// converts bodies of the responses API and of Anthropic's API to chat messages as
// vLLM does, normalizes messages as vLLM does, renders the model's template,
// encodes the prompt and hashes its tokens block by block.
//
// Every request runs the whole template, and the package makes no assumption about
// it. A memo per namespace makes this cheap, and its results are exact by
// construction:
//
//   - a message is decoded and normalized once: the value is looked up by identical
//     raw bytes or, if these have escapes, by their length and a keyed hash of 128
//     bits, so that the memo holds one copy of a text;
//   - long strings are spans of immutable texts, so rendering does not copy them
//     (package jinja);
//   - tokens and hashes are looked up by an identical sequence of rendered
//     pieces, up to a cut that no continuation can move (bpe's Cut).
//
// The cost of a request in a conversation is therefore the cost of its last turn.
// The package never rejects a body that an engine would accept: if the prompt
// cannot be rendered exactly, the Prompt is not Exact and has the reason.
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

// Config describes a model. Files and Encoder are required, except that Template
// can replace Files.
type Config struct {
	// Files holds tokenizer_config.json and, if the model has them,
	// chat_template.jinja and config.json. Only New reads it.
	Files fs.FS
	// Encoder encodes text. If it also has the methods Cut and Starts of
	// *bpe.Tokenizer, prompts are encoded in parts; if it has the method Affixes,
	// completions get their BOS.
	Encoder tokenizer.Encoder
	// CacheIdentity seeds the chains of block hashes. The event side and the
	// request side must use the same value (see Identity).
	CacheIdentity string
	// Template replaces the template of Files; "" keeps it.
	Template string
	// ContentFormat is the engine's --chat-template-content-format: "" and
	// "auto" derive it from the template; "string", "openai".
	ContentFormat string
	// TimeZone is the time zone of the engine's clock, for templates that print
	// the date. nil means UTC, which is the time zone of containers.
	TimeZone *time.Location
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
	// BudgetBytes limits the memory of all memos. The default, 256 MiB, holds
	// about 550 conversations of 100k tokens. The limit is enforced at the end of
	// each request that adds to a memo.
	BudgetBytes int64
	// CheckEvery makes one request in CheckEvery a check (see Model.NextCheck).
	// The default is 1000: a whole computation takes 1 ms per 40 KB of prompt, so
	// this is at most a few percent of one core. Negative: no checks.
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

// Validate reports all errors of c.
func (c Config) Validate() error {
	var errs []error
	if c.Encoder == nil {
		errs = append(errs, errors.New("chat: missing Encoder"))
	}
	if c.Files == nil && c.Template == "" {
		errs = append(errs, errors.New("chat: missing Files or Template"))
	}
	switch c.ContentFormat {
	case "", "auto", "string", "openai":
	default:
		errs = append(errs, fmt.Errorf("chat: content format %q, want auto, string or openai", c.ContentFormat))
	}
	if c.BudgetBytes < 0 {
		errs = append(errs, fmt.Errorf("chat: negative BudgetBytes %d", c.BudgetBytes))
	}
	return errors.Join(errs...)
}

// cutter is an encoder that can encode a prompt in parts; see *bpe.Tokenizer.
type cutter interface {
	Cut(text []byte) int
	Starts(text []byte, f func(at int))
}

// affixer is an encoder that provides the ids which encoding with special tokens
// adds around a text.
type affixer interface {
	Affixes() (prefix, suffix []uint32)
}

// Model is a template and a tokenizer with their memos. It is safe for concurrent
// use and starts no goroutine.
type Model struct {
	cfg      Config
	encoder  tokenizer.Encoder
	cutter   cutter // nil: prompts are encoded whole
	affixes  affixes
	template *template // nil: chat is not exact, and why has the reason
	tools    *template // used if a request has tools; usually the same
	why      string
	special  []special // special tokens that templates may print

	mergeSystem bool   // Anthropic's API: system messages move to the front
	noThinking  string // Anthropic's API: the reasoning effort that represents disabled thinking

	mu    sync.RWMutex
	memos map[memoKey]*memo // guarded by mu

	bytes    atomic.Int64 // of all memos
	epoch    atomic.Uint32
	added    atomic.Int64 // bytes added since the start of the epoch
	evicting sync.Mutex

	distrusted atomic.Bool // a check found a difference
	checks     chan *Check
	counters   counters
	work       sync.Pool // of *work
}

// New loads a model. It returns the errors of cfg and of its files. A template that
// cannot be compiled exactly is no error: every prompt is then not Exact and has the
// reason, which Stats also returns.
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

// Blocks computes the prompt of r, scanned for an operation that has a prompt, with
// the hashes of its whole blocks for every size of q. It does not reject a body: if
// the prompt cannot be computed exactly, p is not Exact and has the reason, 0 tokens
// and no hashes. A Private query gets only the tokens. The error is about q alone.
// Blocks resets p first; p does not refer to r or q afterwards.
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
	if reason == reasonMedia || reason == reasonPrompts {
		m.partial(r, reason, q, p)
	}
	if check {
		m.offer(r, q, p, w.now)
	}
	w.release()
	m.work.Put(w)
	m.trim()
	return nil
}

// finish sets the outcome of p according to reason.
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

// blocks returns the reason why the prompt is not exact, or "".
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

// Tokens appends the prompt's tokens to dst, computed whole and without any memo.
// It is slow and serves checks and tools. The error (an *InexactError) has the
// reason why the tokens are not known exactly.
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

// Prompt returns the prompt's text, as Tokens encodes it, or "" for a prompt of
// token ids.
func (m *Model) Prompt(r *llmapi.Request) (string, error) {
	w := newWork()
	w.now = m.cfg.Now().In(m.cfg.TimeZone)
	if reason := m.prepare(w, r, nil); reason != "" {
		return "", &InexactError{Reason: reason}
	}
	return string(w.text(nil)), nil
}

// InexactError reports why a prompt is not known exactly.
type InexactError struct{ Reason string }

func (e *InexactError) Error() string { return "chat: " + e.Reason }

// checkSizes rejects anything except 1 to MaxSizes distinct block sizes.
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
				return fmt.Errorf("chat: duplicate block size %d", s)
			}
		}
	}
	return nil
}
