// Package kvevents reads the cache events that inference engines publish: which
// KV cache blocks were stored, removed, or all cleared.
//
// Three layers, each usable alone:
//
//   - [Decoder] turns one msgpack payload into a [Batch] of typed events, without
//     allocating. Every form that vLLM (arrays until 0.23, maps since), SGLang
//     (arrays of six, seven or eight, maps since) and TensorRT-LLM (maps) have put
//     on the wire is read by the same code, which looks at the bytes of each event.
//     An invalid event is left out; the rest of its batch is decoded.
//   - A ZMTP 3.0 connection (SUB and DEALER roles, NULL mechanism) with bounded
//     frames and deadlines.
//   - [Subscriber] follows one publisher: subscribes, replays what was published
//     before, joins both without gaps or duplicates, repairs gaps by replay, and
//     distinguishes a restarted engine from a dropped connection.
//
// An engine's block hashes are opaque keys here: nothing is recomputed and none
// is compared between engines.
package kvevents

// Kind is what happened to the blocks of an event.
type Kind uint8

const (
	Stored  Kind = iota + 1 // blocks became reusable
	Removed                 // blocks are no longer reusable
	Cleared                 // all blocks of the publisher are gone
)

// String returns the kind in lower case, for metrics and logs.
func (k Kind) String() string {
	switch k {
	case Stored:
		return "stored"
	case Removed:
		return "removed"
	case Cleared:
		return "cleared"
	}
	return "unknown"
}

// Medium is where the blocks of an event are stored.
type Medium uint8

const (
	GPU      Medium = iota // device memory; also what an event without a medium means
	Host                   // host memory ("CPU", "CPU_PINNED", "HOST")
	Disk                   // local disk ("DISK", "STORAGE", "SSD", "NVME", "FS")
	External               // a store away from the publisher, and any medium with another name
)

// String returns the medium in lower case, for metrics and logs.
func (m Medium) String() string {
	return [...]string{"gpu", "host", "disk", "external"}[m&3]
}

// parseMedium reads a medium's name. Producers differ in case (tair-kvcache#256
// sends lower case), so case does not count.
func parseMedium(s []byte) Medium {
	switch {
	case len(s) == 0, fold(s, "gpu"), fold(s, "cuda"), fold(s, "device"), fold(s, "hbm"):
		return GPU
	case fold(s, "cpu"), fold(s, "cpu_pinned"), fold(s, "host"), fold(s, "host_pinned"), fold(s, "dram"):
		return Host
	case fold(s, "disk"), fold(s, "ssd"), fold(s, "nvme"), fold(s, "fs"), fold(s, "file"), fold(s, "storage"):
		return Disk
	}
	return External
}

// fold reports whether s is want, which is lower case ASCII, in any case.
func fold(s []byte, want string) bool {
	if len(s) != len(want) {
		return false
	}
	for i, c := range s {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != want[i] {
			return false
		}
	}
	return true
}

// Event is one change of an engine's cache. Its slices are views into the
// decoder's scratch memory and the payload, valid until the next Decode call or
// until Sink.Batch returns.
type Event struct {
	Kind   Kind
	Medium Medium

	Hashes []uint64 // [blocks] the engine's names of the blocks, first to last
	Copies []uint32 // [blocks] or empty; Removed only: copies of each block that stay

	// Stored only.
	Parent      uint64   // the engine's name of the block before Hashes[0]
	HasParent   bool     // false: Hashes[0] starts at the prompt's first token
	Tokens      []uint32 // [blocks × BlockTokens]
	BlockTokens int      // tokens in one block, ≥ 1
	// [blocks] or empty: digest of what a block depends on besides tokens, adapter and
	// salt (images, embeddings); 0 = nothing
	Extra []uint64

	Adapter     []byte // LoRA adapter: its name, or its number in decimal if the engine sent only that
	AdapterIsID bool   // Adapter is a number or opaque id, not the name that clients use
	Salt        []byte // cache salt of the chain; known on the first block of a chain, and on every event if SaltUnhashed
	// SaltUnhashed: Hashes do not depend on Salt (SGLang), so one hash may name
	// blocks of several salts at a time.
	SaltUnhashed bool

	Group int // KV cache group of a hybrid model; -1 if not reported
}

// Batch is what one message of the publisher carried.
type Batch struct {
	Seq      uint64  // the publisher's number of the message, from 0, without holes
	TS       float64 // seconds since 1970 by the engine's clock; 0 if not reported
	Rank     int     // data parallel rank; -1 if not reported
	Events   []Event // in order
	Failed   int     // events of the message that could not be decoded
	Replayed bool    // came from the replay socket
}
