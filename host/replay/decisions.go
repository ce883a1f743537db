package replay

import (
	"fmt"
	"io"
	"math"

	"github.com/kvasir-router/kvasir/host/telemetry/placements"
)

// OpenDecisions reads the placements of a decision log of this router (gzip when the
// name ends in .gz): an open load with the recorded times, prompts as chains of
// encrypted block hashes, and the reported lengths of answers. Hashes of different starts
// of the router have different keys, so that nothing is shared across them. Requests
// whose prompt the router did not know have no blocks.
func OpenDecisions(path string) (*Trace, error) { return open(path, ReadDecisions) }

// ReadDecisions is OpenDecisions for a stream.
func ReadDecisions(r io.Reader) (*Trace, error) {
	t := &Trace{Turnless: true}
	var steps []int // tokens between the hashes of each request
	first := math.Inf(1)
	err := placements.Read(r, func(rec *placements.Record) error {
		p := &rec.Placement
		if p.PromptTokens < 1 || p.PromptTokens > maxTokens || p.BlockTokens < 0 || p.BlockTokens > maxTokens {
			return fmt.Errorf("decision %.60q: %d prompt tokens, %d of a block", rec.ID, p.PromptTokens, p.BlockTokens)
		}
		q := Request{Tokens: p.PromptTokens, Output: defaultOutput}
		if o := rec.Outcome; o != nil && o.OutputTokens != nil && *o.OutputTokens > 0 && *o.OutputTokens <= maxTokens {
			q.Output = *o.OutputTokens
		}
		step := 0
		if p.Exact && p.BlockTokens > 0 && len(p.Blocks) > 0 {
			step, q.Blocks = p.BlockTokens, p.Blocks
			for i, h := range q.Blocks {
				q.Blocks[i] = mix(hashName(p.Key), h)
			}
		}
		at := float64(rec.Time.UnixMicro()) / 1e6
		first = min(first, at)
		t.Conversations = append(t.Conversations, Conversation{Name: rec.RequestID, Tenant: rec.Tenant, Start: at,
			Requests: []Request{q}})
		steps = append(steps, step)
		t.BlockTokens = max(t.BlockTokens, step)
		if len(steps) > maxRequests {
			return errTooMany
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	if t.BlockTokens == 0 {
		t.BlockTokens = OpenAIBlock
	}
	for i := range t.Conversations {
		c := &t.Conversations[i]
		c.Start -= first
		c.Requests[0].Blocks = placements.Chain(c.Requests[0].Blocks).Every(steps[i], t.BlockTokens)
	}
	t.sort()
	return t, nil
}
