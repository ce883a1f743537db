// Package isolation judges whether the cached tokens that an engine reports for a
// request can be those of the request's own namespace.
//
// A cache salt is a promise of the engine: blocks of one salt are found by no
// other. A probe sees whether an engine keeps it, but only in the cache tiers that
// the probe reaches. A [History] sees the rest: it remembers which blocks the
// router has sent in each namespace, and which ones engines have stored by their
// events. An answer that reports more cached tokens than that explains was served
// from another namespace's blocks.
//
// What it explains errs towards the engine: see [Claim.Excess]. The history is
// kept across restarts of the router ([History.Save], [History.Load]). What
// another router has sent to an engine without cache events is not known here.
package isolation

import (
	"sync"
	"time"
)

// History is what has been sent in each namespace. All methods may be called
// concurrently.
type History struct {
	blocks filter

	mu     sync.Mutex        // guards what follows
	spaces map[uint64]*space // by namespace
	rest   space             // of namespaces beyond maxSpaces
}

// space is what a History knows of one namespace beside its blocks.
type space struct {
	answer   uint32 // tokens of its longest answer
	answered int64  // when the last one ended, Unix nanoseconds
	sent     bool   // any prompt
	short    bool   // prompts without a whole block
	unknown  bool   // prompts whose blocks are not known
}

const (
	// maxSpaces bounds the namespaces with a record, some 100 bytes each.
	// Those beyond share one record, which explains more, never less.
	maxSpaces = 1 << 16
	// unknownAnswer is taken for the length of an answer that no usage was
	// reported for, such as one whose client left.
	unknownAnswer = 8192
	// eventLag is how long the events of an answer's last blocks may take.
	eventLag = 2 * time.Second
)

// New returns an empty history. Its memory is allocated with the first block: at
// most bytes, which hold about bytes/2 distinct blocks; the oldest half is
// forgotten when they are full.
func New(bytes int64) *History {
	h := &History{spaces: map[uint64]*space{}}
	h.blocks.init(bytes)
	return h
}

// Prompt is one request's prompt, as it is sent.
type Prompt struct {
	Namespace uint64   // number of its salt and model, blockhash.Seed or the like
	Chain     []uint64 // [whole blocks] the router's own hashes, which contain the salt; not kept
	Block     int      // tokens of one block, 0 = unknown
	Exact     bool     // Chain is the whole prompt, to the token
	Alone     bool     // the salt is this request's alone
	Many      bool     // several sequences, which share blocks with each other
}

// Claim is what a namespace can hold of one prompt. The zero Claim makes no
// statement: nothing is in excess of it.
type Claim struct {
	space   uint64
	tokens  int  // leading tokens that were sent or stored before
	block   int  // tokens
	bounded bool // tokens is all that was sent
	unknown bool // prompts of unknown blocks were sent, which only events report
	answers bool // an answer may go on where the known tokens end
}

// Sent records a prompt that is about to be sent, and returns what its namespace
// can hold of it from before.
func (h *History) Sent(p *Prompt) Claim {
	c := Claim{space: p.Namespace, block: p.Block, bounded: !p.Many}
	if c.block <= 0 {
		c.block = 16
	}
	if p.Alone {
		return c
	}
	exact := p.Exact && p.Block > 0
	known := 0
	if exact {
		known = h.blocks.known(p.Chain)
		h.blocks.add(p.Chain[known:])
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.spaceLocked(p.Namespace)
	c.tokens, c.unknown = known*c.block, s.unknown
	c.answers = known > 0 || s.short
	if !exact && s.sent {
		c.bounded = false
	}
	s.sent = true
	s.unknown = s.unknown || !exact
	s.short = s.short || exact && len(p.Chain) == 0
	return c
}

// Answered records that an answer in the namespace of a claim ended at now. tokens
// is its length, negative if it is not known.
func (h *History) Answered(c *Claim, tokens int, now time.Time) {
	if c.block == 0 {
		return
	}
	if tokens < 0 {
		tokens = unknownAnswer
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.spaces[c.space]
	if s == nil {
		s = &h.rest
	}
	s.answer, s.answered = max(s.answer, uint32(tokens)), now.UnixNano()
}

// Stored records blocks that an engine's events report, by the router's own
// hashes. They are not kept.
func (h *History) Stored(hashes []uint64) { h.blocks.add(hashes) }

// Excess returns how many of the tokens that an engine reports as cached the claim
// does not explain, 0 if all may be the namespace's own. held is what the index
// knew the endpoint to hold of the prompt, in tokens. live says that the events of
// the endpoint were complete: then they reported answers and prompts whose
// blocks the router does not know; else those explain whatever they may be.
//
// What is in excess is less than a block after what is known, or an answer's
// length where an answer may go on, explains too: answers are cached, and the
// events of the last one may still be under way.
func (h *History) Excess(c *Claim, reported, held int, live bool, now time.Time) int {
	if !c.bounded || c.unknown && !live {
		return 0
	}
	known := max(c.tokens, held)
	bound := known + c.block - 1
	if c.answers || held > 0 {
		h.mu.Lock()
		s := h.spaces[c.space]
		if s == nil {
			s = &h.rest
		}
		if !live || now.UnixNano()-s.answered < int64(eventLag) {
			bound += int(s.answer)
		}
		h.mu.Unlock()
	}
	if reported <= bound {
		return 0
	}
	return reported - known
}

// spaceLocked returns the record of a namespace, made on demand.
func (h *History) spaceLocked(key uint64) *space {
	if s := h.spaces[key]; s != nil {
		return s
	}
	if len(h.spaces) >= maxSpaces {
		return &h.rest
	}
	s := new(space)
	h.spaces[key] = s
	return s
}

// Bytes is what the blocks have allocated.
func (h *History) Bytes() int64 { return h.blocks.bytes() }
