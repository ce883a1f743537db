package backend

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// isolationProbe finds out whether an engine isolates the caches of different
// salts, in every tier that it has. It sends a prompt that no one has sent before
//
//	twice with one salt     the second must find it: else the cache is off
//	once with another salt  must find nothing
//
// The prompt is longer than the chunks of cache tiers beside the GPU, which store
// whole chunks only. A tier that is written at once answers the third request,
// since the GPU's cache cannot. A tier that is written when the GPU evicts a block
// does so later: so a probe begins with the prompt of the probe before, an hour
// older, under one more salt.
//
// Immutable once made.
type isolationProbe struct {
	client  *dialect.Client
	dialect *dialect.Dialect
	model   string
	field   string // of the salt
	prompt  []int  // token ids
	block   int    // tokens
}

const (
	// probeBlocks whole blocks are the least: three survive an engine that drops the
	// last block of a match.
	probeBlocks = 3
	// probeTokens is how long the prompt is where the engine's context and cache
	// allow it. Tiers store chunks of 16 to 64 tokens (vLLM's offloading, SGLang's
	// HiCache) or 256 (LMCache, whose documentation goes up to 1,024); 2,048 reach
	// two of the largest. A probe computes three such prompts an hour, 6,144 tokens:
	// half a second of an 8B model on an A100. Longer ones cost more and find only
	// what [Watcher.Revoke] finds too.
	probeTokens = 2048
	// probeShare of the cache is what one prompt may take at most: it is cached
	// under three salts and must not evict itself.
	probeShare = 8
)

// probeLength returns the tokens of a probe's prompt: whole blocks and one more
// token, which is always computed. maxLen is the engine's context and cache its KV
// memory, both in tokens, 0 = unknown.
func probeLength(block, maxLen, cache int) int {
	n := probeTokens
	if cache > 0 {
		n = min(n, cache/probeShare)
	}
	n = max(n/block, probeBlocks)*block + 1
	if maxLen > 1 {
		n = min(n, maxLen-1)
	}
	return n
}

// saltField returns the request field of the cache salt, or why there is none.
func (w *Watcher) saltField(st *Status) (field, why string) {
	d := w.cfg.Dialect
	if field = d.SaltField(dialect.Completions); field == "" {
		return "", "dialect " + d.Name + " has no cache salt"
	}
	if !d.Salted(dialect.Completions, st.Capabilities.Version) {
		return "", d.Title + " " + st.Capabilities.Version + " ignores cache salts"
	}
	return field, ""
}

// randomPrompt returns token ids that no one has sent before. Every vocabulary has
// them: they are bytes, in the usual ones.
func randomPrompt(n int) []int {
	b := make([]byte, n)
	rand.Read(b) // never fails
	out := make([]int, n)
	for i, x := range b {
		out[i] = 33 + int(x)%200
	}
	return out
}

// randomSalt returns a salt that no namespace has.
func randomSalt() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// errOthers: other requests changed the engine's counters.
var errOthers = errors.New("backend: other requests changed the counters during the probe")

// run sends the probe and returns what it shows. earlier is the probe before, nil
// if there is none.
func (p *isolationProbe) run(ctx context.Context, earlier *isolationProbe) (r probeResult) {
	if earlier != nil {
		n, err := earlier.send(ctx, randomSalt())
		if err != nil {
			return probeResult{err: err}
		}
		if n > 0 {
			return shared(n, len(earlier.prompt), "of an earlier probe")
		}
	}
	one, other := randomSalt(), randomSalt()
	var found [3]int
	for i, salt := range []string{one, one, other} {
		if found[i], r.err = p.send(ctx, salt); r.err != nil {
			return r
		}
	}
	switch {
	case found[0] > 0:
		r.err = fmt.Errorf("backend: %d tokens of a prompt that is new were found in the cache", found[0])
	case found[2] > 0:
		return shared(found[2], len(p.prompt), "of a probe")
	case found[1] < p.block:
		r.isolation = endpoint.IsolationUnverified // its cache is off, or it does not report
	default:
		r.isolation = endpoint.IsolationVerified
	}
	return r
}

// shared is the result that another salt's prompt was found.
func shared(found, prompt int, what string) probeResult {
	return probeResult{isolation: endpoint.IsolationNone,
		reason: fmt.Sprintf("%d of %d prompt tokens %s were found under another cache salt", found, prompt, what)}
}

// send sends the prompt under a salt and returns the tokens of it that were found
// in the cache: as the answer reports, else as the engine's counters do.
func (p *isolationProbe) send(ctx context.Context, salt string) (int, error) {
	before, err := p.scrape(ctx)
	if err != nil {
		return 0, err
	}
	body, err := json.Marshal(map[string]any{"model": p.model, "prompt": p.prompt, "max_tokens": 1, "temperature": 0,
		p.field: salt})
	if err != nil {
		return 0, err
	}
	b, err := p.client.Post(ctx, "/v1/completions", body, dialect.MaxAnswerBytes)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Usage struct {
			Details *struct {
				Cached *int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return 0, fmt.Errorf("backend: answer to a probe: %v", err)
	}
	if d := answer.Usage.Details; d != nil && d.Cached != nil {
		return *d.Cached, nil
	}
	return p.counted(ctx, &before)
}

func (p *isolationProbe) scrape(ctx context.Context) (m dialect.Metrics, err error) {
	path := p.dialect.Metrics
	if path == "" {
		return m, nil
	}
	b, err := p.client.Get(ctx, path, dialect.MaxMetricsBytes)
	if err != nil {
		return m, err
	}
	return p.dialect.Parse(b), nil
}

// counted returns by how much the counters of cached tokens have grown, of all
// tiers, once they count the prompt. An engine writes them a step after its answer.
func (p *isolationProbe) counted(ctx context.Context, before *dialect.Metrics) (int, error) {
	if !before.HasCache {
		return 0, nil // it does not report
	}
	const tries, pause = 20, 100 * time.Millisecond
	for range tries {
		m, err := p.scrape(ctx)
		if err != nil {
			return 0, err
		}
		switch queried := m.CacheQueries - before.CacheQueries; {
		case math.Abs(queried-float64(len(p.prompt))) < 0.5:
			return int(m.CacheHits - before.CacheHits + m.ExternalHits - before.ExternalHits), nil
		case queried > float64(len(p.prompt)):
			return 0, errOthers
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
	}
	return 0, nil // it does not count: its cache is off
}
