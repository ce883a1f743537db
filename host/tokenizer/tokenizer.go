// Package tokenizer defines what its subpackages agree on: how a prompt's
// blocks are asked for and how they are told. bpe encodes text, jinja renders
// templates, chat joins both into body → prompt → block hashes, hf wraps the
// Hugging Face library.
package tokenizer

// MaxSizes is the greatest number of distinct block sizes among the pools of
// one model.
const MaxSizes = 4

// Encoder turns text into token ids. An Encoder is safe for concurrent use.
type Encoder interface {
	// Encode appends the ids of text to dst. Added tokens in text are
	// recognised as Hugging Face does; no BOS or EOS is added. It fails only
	// for text it cannot carry exactly (hf: a NUL byte, invalid UTF-8).
	Encode(dst []uint32, text []byte) ([]uint32, error)
}

// Query says which chains are wanted.
type Query struct {
	Salt    string // cache salt of the decided namespace, "" = public; memos are kept per salt
	Adapter string // LoRA adapter, "" = none
	Private bool   // of one request only: no memo is read or left, and no chains are told
	Sizes   []int  // [1..MaxSizes] distinct block sizes in tokens
}

// Prompt is what is known of a request's prompt. Its slices belong to the
// caller and are reused from request to request.
type Prompt struct {
	Tokens int                // prompt tokens; 0 if not Exact
	Chains [MaxSizes][]uint64 // Chains[i]: hashes of the whole blocks of Query.Sizes[i] tokens
	Exact  bool               // tokens and chains are those of the engine
	Reason string             // why not Exact, "" otherwise
}

// Reset empties p and keeps its memory.
func (p *Prompt) Reset() {
	p.Tokens, p.Exact, p.Reason = 0, false, ""
	for i := range p.Chains {
		p.Chains[i] = p.Chains[i][:0]
	}
}
