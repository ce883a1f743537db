// Package tokenizer defines the types that its subpackages share: the query
// for a prompt's block hashes and the result. bpe encodes text, jinja renders
// templates, chat combines both (body → prompt → block hashes), and hf wraps
// the Hugging Face library.
package tokenizer

// MaxSizes is the greatest number of distinct block sizes among the pools of
// one model.
const MaxSizes = 4

// Encoder turns text into token ids. An Encoder is safe for concurrent use.
type Encoder interface {
	// Encode appends the ids of text to dst. It recognises added tokens in text
	// as Hugging Face does and adds no BOS or EOS. It returns an error only for
	// text that it cannot encode exactly (hf: a NUL byte, invalid UTF-8).
	Encode(dst []uint32, text []byte) ([]uint32, error)
}

// Query selects the hash chains to compute.
type Query struct {
	Salt    string // cache salt of the decided namespace, "" = public; memos are kept per salt
	Adapter string // LoRA adapter, "" = none
	Private bool   // this request only: no memo is read or written, and no chains are returned
	Sizes   []int  // [1..MaxSizes] distinct block sizes in tokens
}

// Prompt holds what is known about a request's prompt. Its slices belong to
// the caller, who reuses them from request to request.
type Prompt struct {
	Tokens int                // prompt tokens; 0 if neither Exact nor Partial
	Chains [MaxSizes][]uint64 // Chains[i]: hashes of the whole blocks of Query.Sizes[i] tokens
	Exact  bool               // Tokens and Chains equal those of the engine
	Reason string             // why Exact is false, "" if it is true

	// Partial says of a prompt that is not Exact what is known of it: Chains are those
	// of the prompt up to its first medium, or of the first of several prompts; Tokens
	// counts all its text. MediaTokens estimates the tokens of its media.
	Partial     bool
	MediaTokens int
}

// Reset empties p and keeps its memory.
func (p *Prompt) Reset() {
	p.Tokens, p.Exact, p.Reason = 0, false, ""
	p.Partial, p.MediaTokens = false, 0
	for i := range p.Chains {
		p.Chains[i] = p.Chains[i][:0]
	}
}
