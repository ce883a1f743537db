package simengine

import (
	"slices"
	"time"
)

// ModelConfig sizes a [Model]. All fields but those of the host tier are required.
type ModelConfig struct {
	Timing      Timing
	BlockTokens int // tokens per block
	CacheBlocks int // blocks of KV memory
	MaxSeqs     int // sequences in one step at most (max_num_seqs)
	ChunkBlocks int // blocks in a chunk of the host tier; 0: there is none
	HostChunks  int // chunks the host tier holds
}

// Model is the engine without clock, network and goroutines: it admits
// sequences, forms steps, and applies them.
//
//	d, ok := m.Plan()      // a step that will take d; not ok: nothing to do
//	…time d passes; Add and Abort may be called meanwhile…
//	done := m.Complete()   // its effects
//
// In each step running sequences come first, in order of arrival: one token for
// each that decodes, then chunks of prompts up to the token budget; then waiting
// ones are admitted, first come first served, while the blocks of prompt and
// whole answer fit beside what the running ones have reserved. Blocks become
// matchable when the step that computed them is complete. So nothing is ever
// preempted. Sources: vLLM's V1 scheduler; the reservation is a simplification.
//
// Not safe for concurrent use.
type Model struct {
	cfg      ModelConfig
	cache    *cache
	host     *hostTier // nil: none
	waiting  []*Sequence
	running  []*Sequence
	reserved int  // blocks promised to running sequences and not held yet
	planned  bool // between Plan and Complete
	events   []Event
	advanced []*Sequence
	stats    ModelStats
}

// ModelStats are running totals of a Model.
type ModelStats struct {
	Steps          uint64
	StepTokens     uint64 // tokens computed
	PromptTokens   uint64 // of admitted sequences; the prefix cache's queries
	CachedTokens   uint64 // of these, found in the cache; its hits
	OutputTokens   uint64
	BlocksStored   uint64
	BlocksEvicted  uint64
	Running        int
	Waiting        int
	CacheBlocks    int     // matchable blocks
	CacheUsage     float64 // share of blocks that running sequences use, in [0, 1]
	FinishedOK     uint64
	FinishedAborts uint64
}

// Sequence is one prompt and the answer that will be generated for it. The
// fields above the line are the caller's and are not changed by Model.
type Sequence struct {
	Prompt  int      // tokens of the prompt, at least 1
	Output  int      // tokens of the answer, at least 1
	Hashes  []uint64 // hashes of the whole blocks of prompt + answer
	Chunks  []uint64 // keys of the whole chunks of prompt + answer in the host tier
	NoReuse bool     // do not read the cache (prompt_logprobs)
	Data    any      // the caller's own

	// ---
	Cached    int // prompt tokens found in the cache at admission
	Computed  int // tokens whose keys and values exist
	Generated int // tokens of the answer so far
	Admitted  bool

	state  seqState
	chunk  int // tokens of this sequence in the planned step
	held   int // blocks held in the cache, pinned
	allocd int // blocks of memory: held and private ones
	blocks int // blocks it will need in all
}

type seqState uint8

const (
	seqNew seqState = iota
	seqWaiting
	seqRunning
	seqDone
)

// Done reports whether the whole answer was generated.
func (s *Sequence) Done() bool { return s.state == seqDone && s.Generated == s.Output }

// Event is a change of the set of matchable blocks, in order.
type Event struct {
	Seq      *Sequence // blocks From..To of this sequence were stored
	From, To int
	Removed  uint64 // Seq nil: the block with this hash was evicted
}

// NewModel returns an empty model.
func NewModel(cfg ModelConfig) *Model {
	return &Model{cfg: cfg, cache: newCache(cfg.CacheBlocks), host: newHostTier(cfg.ChunkBlocks, cfg.HostChunks)}
}

// Add puts a sequence at the end of the waiting queue. Its prompt and answer
// must fit into the cache.
func (m *Model) Add(s *Sequence) {
	s.blocks = ceilDiv(s.Prompt+s.Output-1, m.cfg.BlockTokens)
	if s.Prompt < 1 || s.Output < 1 || s.blocks > m.cfg.CacheBlocks || s.state != seqNew {
		panic("BUG: simengine: sequence that can never run")
	}
	s.state = seqWaiting
	m.waiting = append(m.waiting, s)
}

// Abort takes a sequence out at once, also from the step being run, and reports
// whether it was still unfinished. Its computed whole blocks stay matchable.
func (m *Model) Abort(s *Sequence) bool {
	switch s.state {
	case seqWaiting:
		m.waiting = remove(m.waiting, s)
	case seqRunning:
		m.running = remove(m.running, s)
		m.free(s)
	default:
		return false
	}
	s.state = seqDone
	m.stats.FinishedAborts++
	return true
}

func remove(list []*Sequence, s *Sequence) []*Sequence {
	if i := slices.Index(list, s); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// free gives back the memory of a running sequence.
func (m *Model) free(s *Sequence) {
	m.cache.unpin(s.Hashes[:s.held])
	m.cache.release(s.allocd - s.held)
	m.reserved -= s.blocks - s.allocd
	s.chunk = 0
}

// Plan forms the next step and returns its duration. ok is false if there is
// nothing to compute. Complete must be called before the next Plan.
func (m *Model) Plan() (d time.Duration, ok bool) {
	if m.planned {
		panic("BUG: simengine: step planned twice")
	}
	p := plan{m: m, left: m.cfg.Timing.Budget}
	for _, s := range m.running {
		p.schedule(s)
	}
	for len(m.waiting) > 0 && p.left > 0 && len(m.running) < m.cfg.MaxSeqs {
		s := m.waiting[0]
		if !m.admit(s) {
			break
		}
		m.waiting = slices.Delete(m.waiting, 0, 1)
		m.running = append(m.running, s)
		p.schedule(s)
	}
	if p.tokens == 0 {
		return 0, false
	}
	m.planned = true
	m.stats.Steps++
	m.stats.StepTokens += uint64(p.tokens)
	return m.cfg.Timing.step(p.tokens, p.context, p.attention), true
}

// admit reserves memory for s and takes what the cache holds of its prompt. It
// reports false and changes nothing if the memory is not there.
func (m *Model) admit(s *Sequence) bool {
	hit, loaded := 0, 0
	if !s.NoReuse {
		// At least one token is computed, or there would be nothing to sample
		// from: reuse is whole blocks of prompt-1 tokens.
		n := min((s.Prompt-1)/m.cfg.BlockTokens, len(s.Hashes))
		hit = m.cache.match(s.Hashes[:n])
		loaded = m.host.match(s.Chunks, n)
	}
	need := s.blocks - hit + m.cache.idle(s.Hashes[:hit])
	if m.cache.pinned+m.cache.private+m.reserved+need > m.cfg.CacheBlocks {
		return false
	}
	m.cache.pin(s.Hashes[:hit])
	m.reserved += s.blocks - hit
	s.held, s.allocd = hit, hit
	s.Cached = max(hit, loaded) * m.cfg.BlockTokens // what is loaded takes no time, and memory with the first step
	s.Computed = s.Cached
	s.state, s.Admitted = seqRunning, true
	m.stats.PromptTokens += uint64(s.Prompt)
	m.stats.CachedTokens += uint64(s.Cached)
	return true
}

// plan is a step being formed.
type plan struct {
	m                  *Model
	left               int // budget
	tokens             int
	context, attention float64
}

// schedule gives s its share of the step and the memory for it.
func (p *plan) schedule(s *Sequence) {
	n := 1
	if s.Computed < s.Prompt {
		n = min(s.Prompt-s.Computed, p.left)
	}
	if n = min(n, p.left); n == 0 {
		return
	}
	s.chunk = n
	p.left -= n
	p.tokens += n
	p.context += float64(s.Computed)
	if s.Computed < s.Prompt {
		p.attention += float64(n) * (float64(s.Computed) + float64(n)/2)
	}
	if more := ceilDiv(s.Computed+n, p.m.cfg.BlockTokens) - s.allocd; more > 0 {
		s.allocd += more
		p.m.reserved -= more
		p.m.cache.alloc(more)
		for _, h := range p.m.cache.takeRemoved() {
			p.m.events = append(p.m.events, Event{Removed: h})
			p.m.stats.BlocksEvicted++
		}
	}
}

// Complete applies the planned step and returns the sequences that generated a
// token in it, in order of arrival; those that are [Sequence.Done] have left.
// The slice is valid until the next call.
func (m *Model) Complete() []*Sequence {
	m.planned = false
	m.advanced = m.advanced[:0]
	keep := m.running[:0]
	for _, s := range m.running {
		if m.advance(s); s.state == seqRunning {
			keep = append(keep, s)
		}
	}
	clear(m.running[len(keep):])
	m.running = keep
	return m.advanced
}

func (m *Model) advance(s *Sequence) {
	if s.chunk == 0 {
		return
	}
	s.Computed += s.chunk
	s.chunk = 0
	m.store(s)
	if s.Computed < s.Prompt {
		return
	}
	s.Generated++
	m.stats.OutputTokens++
	m.advanced = append(m.advanced, s)
	if s.Generated == s.Output {
		m.free(s)
		s.state = seqDone
		m.stats.FinishedOK++
	}
}

// store makes the whole blocks matchable that s has computed by now.
func (m *Model) store(s *Sequence) {
	from := -1
	full := min(s.Computed/m.cfg.BlockTokens, len(s.Hashes))
	flush := func() {
		if from >= 0 {
			m.events = append(m.events, Event{Seq: s, From: from, To: s.held})
		}
		from = -1
	}
	for s.held < full {
		if m.cache.store(s.Hashes[s.held]) {
			if from < 0 {
				from = s.held
			}
			m.stats.BlocksStored++
		} else {
			flush()
		}
		s.held++
	}
	flush()
	m.host.store(s.Chunks, s.held)
}

// Events returns what changed in the cache since the last call. It is valid
// until the next Plan.
func (m *Model) Events() []Event {
	e := m.events
	m.events = m.events[:0]
	return e
}

// Reset removes all cached blocks and returns true, or does nothing and returns false
// while any sequence is running.
func (m *Model) Reset() bool {
	if !m.cache.clear() {
		return false
	}
	m.host.clear()
	return true
}

// Hashes appends the hashes of all matchable blocks to dst, in no order.
func (m *Model) Hashes(dst []uint64) []uint64 {
	for h := range m.cache.index {
		dst = append(dst, h)
	}
	return dst
}

// SetTiming changes the timing from the next Plan on, as an engine that slows down.
func (m *Model) SetTiming(t Timing) { m.cfg.Timing = t }

// Stats returns the totals.
func (m *Model) Stats() ModelStats {
	s := m.stats
	s.Running, s.Waiting, s.CacheBlocks = len(m.running), len(m.waiting), m.cache.len()
	s.CacheUsage = float64(m.cache.pinned+m.cache.private) / float64(m.cfg.CacheBlocks)
	return s
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
