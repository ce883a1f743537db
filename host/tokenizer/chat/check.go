package chat

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// maxWaitingChecks limits the checks that wait, each of which holds a copy of its
// body.
const maxWaitingChecks = 2

// Check is a request whose prompt came from the memo and is to be computed again
// without it.
type Check struct {
	m     *Model
	op    llmapi.Operation
	body  []byte
	query tokenizer.Query
	got   tokenizer.Prompt
	now   time.Time
}

// offer queues a check of a request with an exact prompt.
func (m *Model) offer(r *llmapi.Request, q *tokenizer.Query, p *tokenizer.Prompt, now time.Time) {
	if len(m.checks) == cap(m.checks) {
		m.counters.checksSkipped.Add(1)
		return
	}
	c := &Check{m: m, op: r.Op, body: bytes.Clone(r.Body), query: *q, now: now}
	c.query.Sizes = slices.Clone(q.Sizes)
	c.got = tokenizer.Prompt{Tokens: p.Tokens, Exact: true}
	for i := range q.Sizes {
		c.got.Chains[i] = slices.Clone(p.Chains[i])
	}
	select {
	case m.checks <- c:
	default:
		m.counters.checksSkipped.Add(1)
	}
}

// NextCheck waits for a request to check; the error is that of ctx. The caller runs
// the check in its own goroutine, at any time.
func (m *Model) NextCheck(ctx context.Context) (*Check, error) {
	select {
	case c := <-m.checks:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Run computes the prompt whole, without any memo, and reports whether it equals the
// result of the memo. If not, the memos are dropped and the model is no longer exact:
// every later prompt has the reason. It takes about 1 ms for 40 KB of prompt.
func (c *Check) Run() bool {
	m := c.m
	m.counters.checks.Add(1)
	if c.equal() {
		return true
	}
	m.counters.checkFailures.Add(1)
	m.distrusted.Store(true)
	m.Drop()
	return false
}

func (c *Check) equal() bool {
	var r llmapi.Request
	if err := r.Scan(c.op, c.body); err != nil {
		return false
	}
	w := newWork()
	w.now = c.now
	if c.m.prepare(w, &r, nil) != "" {
		return false
	}
	ids, reason := c.m.encodeWhole(w, nil)
	if reason != "" {
		return false
	}
	var want tokenizer.Prompt
	hashWhole(c.m.seed(c.query.Adapter, c.query.Salt), &c.query, &want, ids)
	same := want.Tokens == c.got.Tokens
	for i := range c.query.Sizes {
		same = same && slices.Equal(want.Chains[i], c.got.Chains[i])
	}
	return same
}
