package simengine

import (
	"math/rand/v2"
	"slices"
	"time"
)

// stored is the content of a BlockStored event: consecutive whole blocks of one
// sequence.
type stored struct {
	hashes    []uint64
	parent    uint64
	hasParent bool
	tokens    []uint32 // len(hashes) × block size
	adapter   string   // "" if none
	adapterID int      // from 1; 0 if none
	salt      string   // cache salt, if the first of hashes begins the prompt
}

// eventEncoder writes batches of KV cache events as vLLM does
// (vllm/distributed/kv_events.py): [time, [event…], data parallel rank]. Events
// are maps, or arrays in the form of before 0.24. Group 0, medium GPU, rank 0.
type eventEncoder struct {
	blockTokens int
	arrays      bool
	scramble    scrambler
	body        []byte // events so far
	n           int
}

// batch returns the msgpack of all events since the last call.
func (e *eventEncoder) batch(now time.Time) []byte {
	b := appendArray(make([]byte, 0, len(e.body)+16), 3)
	b = appendFloat(b, float64(now.UnixNano())/1e9)
	b = append(appendArray(b, e.n), e.body...)
	b = appendUint(b, 0)
	e.body, e.n = e.body[:0], 0
	return b
}

// key opens a member of an event: maps have names, arrays do not.
func (e *eventEncoder) key(name string) {
	if !e.arrays {
		e.body = appendString(e.body, name)
	}
}

func (e *eventEncoder) open(members int, tag string) {
	e.n++
	if e.arrays {
		e.body = appendArray(e.body, members)
	} else {
		e.body = appendMap(e.body, members)
	}
	e.key("type")
	e.body = appendString(e.body, tag)
}

func (e *eventEncoder) store(s *stored) {
	members := 11
	if e.arrays {
		members = 12 // maps leave out a member without a value, arrays cannot
	}
	e.open(members, "BlockStored")
	e.key("block_hashes")
	e.body = appendArray(e.body, len(s.hashes))
	for _, h := range s.hashes {
		e.body = appendUint(e.body, e.scramble.hash(h))
	}
	e.key("parent_block_hash")
	if s.hasParent {
		e.body = appendUint(e.body, e.scramble.hash(s.parent))
	} else {
		e.body = appendNil(e.body)
	}
	e.key("token_ids")
	e.body = appendArray(e.body, len(s.tokens))
	for _, t := range s.tokens {
		e.body = appendUint(e.body, uint64(e.scramble.token(t)))
	}
	e.key("block_size")
	e.body = appendUint(e.body, uint64(e.blockTokens))
	e.key("lora_id")
	if s.adapterID > 0 {
		e.body = appendUint(e.body, uint64(s.adapterID))
	} else {
		e.body = appendNil(e.body)
	}
	e.key("medium")
	e.body = appendString(e.body, "GPU")
	e.key("lora_name")
	e.body = appendStringOrNil(e.body, s.adapter)
	e.extraKeys(s)
	e.key("group_idx")
	e.body = appendUint(e.body, 0)
	e.key("kv_cache_spec_kind")
	e.body = appendString(e.body, "full_attention")
	if e.arrays {
		e.body = appendNil(e.body) // kv_cache_spec_sliding_window
	}
}

// extraKeys writes per block what was mixed into its hash, untagged: the
// adapter, and the salt in the first block of a prompt.
func (e *eventEncoder) extraKeys(s *stored) {
	e.key("extra_keys")
	e.body = appendArray(e.body, len(s.hashes))
	for i := range s.hashes {
		var keys []string
		if s.adapter != "" {
			keys = append(keys, s.adapter)
		}
		if s.salt != "" && i == 0 && !s.hasParent {
			keys = append(keys, s.salt)
		}
		if keys == nil {
			e.body = appendNil(e.body)
			continue
		}
		e.body = appendArray(e.body, len(keys))
		for _, k := range keys {
			e.body = appendString(e.body, k)
		}
	}
}

func (e *eventEncoder) remove(hash uint64) {
	e.open(4, "BlockRemoved")
	e.key("block_hashes")
	e.body = appendUint(appendArray(e.body, 1), e.scramble.hash(hash))
	e.key("medium")
	e.body = appendString(e.body, "GPU")
	e.key("group_idx")
	e.body = appendUint(e.body, 0)
}

func (e *eventEncoder) cleared() { e.open(1, "AllBlocksCleared") }

// stored returns the content of a model's event about the job.
func (j *job) stored(ev *Event, adapters []string, blockTokens int) stored {
	s := stored{
		hashes:    j.Hashes[ev.From:ev.To],
		tokens:    j.tokens[ev.From*blockTokens : ev.To*blockTokens],
		adapter:   j.adapter,
		adapterID: slices.Index(adapters, j.adapter) + 1,
		salt:      j.salt,
	}
	if ev.From > 0 {
		s.parent, s.hasParent = j.Hashes[ev.From-1], true
	}
	return s
}

// scrambler replaces the contents of events; see [Faults].
type scrambler struct {
	hashes, tokens bool
	rng            *rand.Rand
}

func (s *scrambler) hash(h uint64) uint64 {
	if s.hashes {
		return s.rng.Uint64()
	}
	return h
}

func (s *scrambler) token(t uint32) uint32 {
	if s.tokens {
		return s.rng.Uint32N(1 << 17)
	}
	return t
}
