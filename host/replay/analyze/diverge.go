package analyze

import (
	"encoding/json"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
)

// textBlock is the bytes of one block of a text, and bytesPerToken estimates its tokens:
// English text and code are at 3.5 to 4.5 bytes a token in current vocabularies.
const (
	textBlock     = 64
	bytesPerToken = 4
	textTokens    = textBlock / bytesPerToken
)

// Body is one request as a client sent it.
type Body struct {
	Text  string          // the prompt, as the model is shown it, without its tools
	Tools json.RawMessage // nil = none
}

// Cause is what makes prompts differ that could be equal.
type Cause struct {
	Name      string
	Prompts   int // that have it
	Median    int // token of the prompt at which it is, of half of them at most
	GainToken int // prompt tokens that would be reused in addition without it
	Fix       string
}

// rule replaces what one cause puts into a prompt.
type rule struct {
	name, fix string
	replace   func(b *Body) (text string, at int) // at is where it was first replaced, -1 = nowhere
}

var (
	times = regexp.MustCompile(`\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?|` +
		`\b\d{1,2}:\d{2}(?::\d{2})?(?: ?[AP]M)?\b|\b1[6-9]\d{8}(?:\d{3})?\b|` +
		`\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? (?:\d{1,2} )?[A-Z][a-z]{2,8} \d{1,2}(?:,? \d{4})?`)
	ids = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{16,64}\b`)
)

var rules = []rule{
	{"time", "put the time at the end of the prompt, or leave out what changes by the minute", pattern(times)},
	{"unique id", "leave out ids of sessions and requests, or put them at the end of the prompt", pattern(ids)},
	{"tool order", "send the tools always in the same order", sortedTools},
}

func pattern(r *regexp.Regexp) func(*Body) (string, int) {
	return func(b *Body) (string, int) {
		text := b.whole(b.Tools)
		at := r.FindStringIndex(text)
		if at == nil {
			return text, -1
		}
		return text[:at[0]] + r.ReplaceAllLiteralString(text[at[0]:], "#"), at[0]
	}
}

// sortedTools puts the tools in order. They are shown before the text.
func sortedTools(b *Body) (string, int) {
	var tools []json.RawMessage
	if json.Unmarshal(b.Tools, &tools) != nil || len(tools) < 2 {
		return b.whole(b.Tools), -1
	}
	sorted := slices.Clone(tools)
	slices.SortFunc(sorted, func(x, y json.RawMessage) int { return strings.Compare(string(x), string(y)) })
	text, err := json.Marshal(sorted)
	if err != nil {
		return b.whole(b.Tools), -1
	}
	return b.whole(text), 0
}

// whole is the prompt with tools, which chat templates put first.
func (b *Body) whole(tools []byte) string { return string(tools) + b.Text }

// Prompts returns the prompts of bodies, in blocks of 16 estimated tokens.
func Prompts(bodies []Body) (out []Prompt, blockTokens int) {
	for i := range bodies {
		out = append(out, promptOf(bodies[i].whole(bodies[i].Tools)))
	}
	return out, textTokens
}

func promptOf(text string) Prompt {
	p := Prompt{Tokens: (len(text) + bytesPerToken - 1) / bytesPerToken}
	h := fnv.New64a()
	for i := textBlock; i <= len(text); i += textBlock {
		h.Write([]byte(text[i-textBlock : i]))
		p.Chain = append(p.Chain, h.Sum64())
	}
	return p
}

// Diverge finds what ends the reuse of prompts: for each cause it compares the reuse of
// the prompts as they are with that of the prompts without it, in an unbounded cache.
// Causes without gain are left out; the greatest gain is first. The gains of several causes
// do not add up: prompts that have two of them gain only without both.
func Diverge(bodies []Body) (out []Cause) {
	asSent, block := Prompts(bodies)
	before := hitTokens(asSent, block)
	for _, r := range rules {
		c := Cause{Name: r.name, Fix: r.fix}
		changed := make([]Prompt, len(bodies))
		var at []int
		for i := range bodies {
			text, first := r.replace(&bodies[i])
			changed[i] = promptOf(text)
			if first >= 0 {
				at = append(at, first/bytesPerToken)
			}
		}
		c.Prompts = len(at)
		if c.GainToken = hitTokens(changed, block) - before; c.Prompts == 0 || c.GainToken <= 0 {
			continue
		}
		slices.Sort(at)
		c.Median = at[len(at)/2]
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Cause) int { return b.GainToken - a.GainToken })
	return out
}

func hitTokens(prompts []Prompt, block int) int {
	r := Measure(prompts, block, nil)
	return r.Sizes[0].HitTokens
}
