package simengine

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// Prompter turns requests into the tokens the engine would compute. It is safe
// for concurrent use. Its errors are the client's (status 400) and are shown.
type Prompter interface {
	// ChatTokens renders and tokenizes the whole prompt of a conversation that came
	// to route: /v1/chat/completions, /v1/responses, /v1/messages,
	// /v1/messages/count_tokens or /tokenize.
	ChatTokens(body []byte, route string) ([]uint32, error)
	// TextTokens tokenizes the prompt of a completion, with the special tokens
	// the model's tokenizer puts before a text.
	TextTokens(text string) ([]uint32, error)
}

// Vocabulary is what answers are made of. It is safe for concurrent use.
type Vocabulary interface {
	// Encode appends the ids of text to dst, without special tokens around it.
	Encode(dst []uint32, text []byte) ([]uint32, error)
	// Token returns the bytes of a token id.
	Token(id uint32) []byte
	// VocabSize returns the number of ids.
	VocabSize() int
}

// Config of an [Engine]. The zero value of a field means its default.
type Config struct {
	Model      string   // name it serves; default "demo"
	Adapters   []string // names of LoRA adapters it serves beside the model
	Prompter   Prompter // required
	Vocabulary Vocabulary
	EOS        uint32 // end-of-text token, generated at a natural end; 0: none

	Preset string  // see [Preset]; default 8b-h100
	Timing *Timing // replaces the preset's timing
	Speed  float64 // steps take 1/Speed of their time; default 1

	BlockTokens  int // default 16, vLLM's
	CacheBlocks  int // default: the preset's memory in blocks
	MaxSeqs      int // sequences in one step; default 256, vLLM's
	MaxModelLen  int // prompt and answer; default 32768, or the cache if that is smaller
	AnswerTokens int // mean length of answers that no limit ends; default 64

	IgnoreSalt bool // cache_salt is accepted and has no effect

	// HostChunk is the number of tokens in a chunk of a second cache in host memory,
	// a multiple of BlockTokens; 0: there is none. LMCache's is 256. HostIgnoreSalt:
	// chunks are shared between cache salts, whatever the GPU's blocks do.
	HostChunk      int
	HostTokens     int // that the host tier holds; default 16 times the GPU's cache
	HostIgnoreSalt bool

	Topic       string // of events
	BufferSteps int    // batches kept for replay; default 10000, vLLM's
	HWM         int    // batches queued per subscriber, then dropped; default 100000, vLLM's
	ArrayEvents bool   // events as arrays, as before vLLM 0.24, not as maps
	OldReplay   bool   // replay without topic frame, as before vllm#45177
	EventsURL   string // in the answer of /kv_event_sources; default tcp://ADDRESS of the listener
	ReplayURL   string

	MaxBodyBytes int64        // default 64 MiB
	KeepRequests int          // requests kept for GET /sim/requests; default 4096
	KeepBytes    int64        // bytes of heads and bodies kept; default 64 MiB
	Faults       Faults       // in force from the start
	Seed         uint64       // of random faults
	Clock        Clock        // default: the machine's
	Log          *slog.Logger // starts and restarts; default: none
}

func (c Config) withDefaults() (Config, error) {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if c.Model == "" {
		c.Model = "demo"
	}
	if c.Preset == "" {
		c.Preset = "8b-h100"
	}
	timing, cacheTokens, err := Preset(c.Preset)
	if err != nil {
		return c, err
	}
	if c.Timing == nil {
		c.Timing = &timing
	}
	if c.Speed == 0 {
		c.Speed = 1
	}
	def(&c.BlockTokens, 16)
	if c.BlockTokens > 0 {
		def(&c.CacheBlocks, cacheTokens/c.BlockTokens)
	}
	if c.HostChunk > 0 {
		def(&c.HostTokens, 16*c.CacheBlocks*c.BlockTokens)
	}
	def(&c.MaxSeqs, 256)
	def(&c.MaxModelLen, min(32768, c.CacheBlocks*c.BlockTokens))
	def(&c.AnswerTokens, 64)
	def(&c.BufferSteps, 10_000)
	def(&c.HWM, 100_000)
	def(&c.KeepRequests, 4096)
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = 64 << 20
	}
	if c.KeepBytes == 0 {
		c.KeepBytes = 64 << 20
	}
	if c.Clock == nil {
		c.Clock = realClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Validate returns all errors of a Config whose defaults are filled in, joined.
func (c *Config) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("simengine: "+format, args...))
		}
	}
	fault(c.Prompter == nil, "no prompter")
	fault(c.Vocabulary == nil, "no vocabulary")
	errs = append(errs, c.Timing.validate(), c.Faults.validate())
	fault(!(c.Speed > 0), "speed %v", c.Speed)
	// 13,000 tokens are the largest tuple that pickle writes in one frame.
	fault(c.BlockTokens < 1 || c.BlockTokens > 4096, "block size %d tokens", c.BlockTokens)
	fault(c.CacheBlocks < 1, "cache of %d blocks", c.CacheBlocks)
	fault(c.HostChunk < 0 || c.HostChunk > 0 && (c.BlockTokens < 1 || c.HostChunk%c.BlockTokens != 0 ||
		c.HostTokens < c.HostChunk),
		"host tier of %d tokens in chunks of %d with blocks of %d", c.HostTokens, c.HostChunk, c.BlockTokens)
	fault(c.MaxSeqs < 1, "%d sequences per step", c.MaxSeqs)
	fault(c.MaxModelLen < 2 || c.MaxModelLen > c.CacheBlocks*c.BlockTokens,
		"model length %d with a cache of %d tokens", c.MaxModelLen, c.CacheBlocks*c.BlockTokens)
	fault(c.AnswerTokens < 1, "answers of %d tokens", c.AnswerTokens)
	fault(c.BufferSteps < 1 || c.HWM < 1, "event queues of %d and %d batches", c.BufferSteps, c.HWM)
	fault(slices.Contains(c.Adapters, c.Model), "adapter with the model's name %q", c.Model)
	fault(c.MaxBodyBytes < 1 || c.KeepRequests < 1 || c.KeepBytes < 1, "negative limits")
	return errors.Join(errs...)
}
