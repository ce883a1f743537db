package scheduler

import (
	"slices"

	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// knowledge is how much is known of a request's prompt.
type knowledge uint8

const (
	promptEstimated knowledge = iota // its length is estimated; there are no chains
	promptPartial                    // estimated; chains up to its first medium, or of the first of several prompts
	promptExact                      // its tokens are those that the engine counts, and the chains are of all of it
	numKnowledge
)

var knowledgeNames = [numKnowledge]string{promptEstimated: "estimated", promptPartial: "partial", promptExact: "exact"}

// String returns the name, for debugging.
func (k knowledge) String() string { return knowledgeNames[k] }

// promptFacts is what is known of a request's prompt.
type promptFacts struct {
	prompt  *promptMem // nil = not rendered
	known   knowledge
	inexact string // why known is not promptExact
	// textTokens and mediaTokens are the tokens of its text, and of its media before the
	// factor that the model has learned; 0 if the prompt is exact.
	textTokens, mediaTokens int
	tokens                  int    // of the prompt, estimated if not exact
	maxTokens               int    // output tokens asked for, 0 = unknown
	adapter                 string // LoRA adapter asked for, as the engines call it, "" = none
}

// promptMem is the memory of one prompt's chains; it lives until the first
// token, because predictions are renewed from it.
type promptMem struct {
	p     tokenizer.Prompt
	q     tokenizer.Query
	sizes [tokenizer.MaxSizes]int
}

// bytesPerToken estimates tokens where the prompt is not known, for load only:
// English text and code are at 3.5–4.5 bytes a token in current vocabularies.
const bytesPerToken = 4

// blockTokens returns the block size to use for an endpoint that reports n.
func blockTokens(n uint32) int {
	if n == 0 || n > blockhash.MaxBlockTokens {
		return blockhash.DefaultBlockTokens
	}
	return int(n)
}

// getPrompt returns memory for a prompt. It ends with putPrompt.
func (st *State) getPrompt() *promptMem {
	if m, _ := st.prompts.Get().(*promptMem); m != nil {
		m.p.Reset()
		return m
	}
	return new(promptMem)
}

func (st *State) putPrompt(m *promptMem) {
	m.q = tokenizer.Query{}
	st.prompts.Put(m)
}

// readPrompt computes tokens and chains and applies the limits that need them.
func (d *decision) readPrompt() *DeniedError {
	api := d.r.API
	d.maxTokens = api.MaxTokens
	if limit := d.dec.MaxOutputTokens; limit > 0 && (d.maxTokens == 0 || d.maxTokens > limit) {
		d.maxTokens = limit
	}
	switch {
	case !api.Op.HasPrompt():
		d.inexact = "the operation has no prompt"
		d.tokens = 1
		return nil
	case d.model.prompter == nil:
		d.inexact = "the model has no tokenizer"
	case d.model.measured && d.dec.MaxPromptTokens <= 0 && d.model.state.reuse.skips():
		d.inexact = "locality is auto: cached prefixes save less than finding them takes"
	default:
		d.render()
	}
	if d.known != promptExact {
		d.estimate()
		return d.textTooLong()
	}
	if limit := d.dec.MaxPromptTokens; limit > 0 && d.tokens > limit {
		return errTooLong(d.tokens, limit, api.Op.PromptParam())
	}
	d.filterContext()
	return nil
}

// estimate sets the tokens of a prompt that is not exact, for load only.
func (d *decision) estimate() {
	if d.prompt != nil && d.prompt.p.Partial {
		d.known, d.textTokens, d.mediaTokens = promptPartial, d.prompt.p.Tokens, d.prompt.p.MediaTokens
	} else {
		in := llmapi.InlineMedia(d.r.API.Body)
		d.textTokens, d.mediaTokens = 1+(len(d.r.API.Body)-in.Bytes)/bytesPerToken, in.Tokens
	}
	factor := 1.0
	if d.mediaTokens > 0 {
		if f := d.model.state.media.get(); f > 0 {
			factor = f
		}
	}
	d.tokens = max(1, d.textTokens+int(factor*float64(d.mediaTokens)))
}

// textTooLong applies the limit of prompt tokens to a prompt that cannot be counted
// exactly. Without it a client could evade the limit with an image, or with two
// prompts in one request.
func (d *decision) textTooLong() *DeniedError {
	c, ok := d.model.prompter.(TextCounter)
	limit := d.dec.MaxPromptTokens
	if !ok || limit <= 0 {
		return nil
	}
	if n := c.AtLeast(d.r.API, limit); n > limit {
		return tooLong("at least ", n, limit, d.r.API.Op.PromptParam())
	}
	return nil
}

// render has the prompter compute the chains for every block size of the candidates.
func (d *decision) render() {
	m := d.s.st.getPrompt()
	d.prompt = m
	n := d.classes(&m.sizes)
	m.q = tokenizer.Query{Adapter: d.adapter, Salt: d.salt, Private: d.private(), Sizes: m.sizes[:n]}
	if err := d.model.prompter.Blocks(d.r.API, &m.q, &m.p); err != nil {
		d.inexact = "the prompt cannot be rendered"
		return
	}
	if d.private() { // whatever the prompter returned: nothing is looked up or predicted
		for i := range m.p.Chains {
			m.p.Chains[i] = m.p.Chains[i][:0]
		}
	}
	if d.tokens, d.inexact = m.p.Tokens, m.p.Reason; m.p.Exact && m.p.Tokens > 0 {
		d.known = promptExact
	}
}

// classes collects the distinct block sizes of the candidates and gives each
// candidate the index of its own. Beyond the fourth size candidates have no
// chain and no match.
func (d *decision) classes(sizes *[tokenizer.MaxSizes]int) int {
	n := 0
	for i := range d.cands {
		c := &d.cands[i]
		if c.state != candKept {
			continue
		}
		size := blockTokens(d.snap.BlockTokens[c.id])
		at := slices.Index(sizes[:n], size)
		if at < 0 && n < len(sizes) {
			sizes[n] = size
			at = n
			n++
		}
		c.class = int8(at)
	}
	return n
}
