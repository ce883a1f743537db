package backend

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// An isolation probe finds out whether an engine keeps caches of different salts
// apart: the same prompt is sent twice with one salt, where the second must be
// found in the cache, and once with another, where it must not. The first half
// is what gives the second a meaning: an engine whose cache is off finds nothing
// for anybody.

// Probe says whether and when an endpoint is probed.
type Probe struct {
	// Every is between two probes that came to a result, jittered by a tenth. 0 =
	// the endpoint is never probed.
	Every time.Duration
	// Idle reports whether the endpoint may be probed now: it takes requests and
	// this router has none there. nil = always.
	Idle func() bool
}

const (
	// probeBlocks whole blocks, and a token that is always computed, are one
	// probe's prompt: three survive an engine that drops the last block of a match.
	probeBlocks = 3
	// probeRetry is after a probe without a result: the engine was busy, or others'
	// requests fell in between.
	probeRetry = time.Minute
	// probeWait is after the engine was found busy, when the next look is cheap.
	probeWait = 5 * time.Second
	// probeTimeout bounds a probe, of three requests with one token of answer.
	probeTimeout = 30 * time.Second
	// probeKV is the share of KV memory in use above which blocks may be evicted
	// between two of a probe's requests.
	probeKV = 0.8
)

// ProbeStats is what probes have found.
type ProbeStats struct {
	Isolation string    // one of endpoint's Isolation words
	At        time.Time // of the last probe that came to a result
	Fault     string    // why the last one came to none, or ""
	Probes    uint64    // sent
	Faults    uint64    // of them, without a result
}

// probes is when the next one is due. It belongs to the goroutine in Run.
type probes struct {
	next    time.Time
	running chan probeResult // nil: none runs
	life    int              // restarts of the engine that were seen
	silent  int              // results in a row that showed nothing
}

type probeResult struct {
	isolation string
	err       error
	life      int
}

// maxSilent is how many probes in a row may show nothing before one that showed
// something is forgotten: under load a block can be evicted between two requests.
const maxSilent = 3

var (
	errRestarted = errors.New("backend: the engine restarted during the probe")
	errSilent    = errors.New("backend: the prompt was not found again under its own salt")
)

// probe starts a probe if one is due and takes the result of one that ended.
func (w *Watcher) probe(ctx context.Context, now time.Time) {
	if w.cfg.Probe.Every <= 0 {
		return
	}
	p := &w.probes
	if p.running != nil {
		select {
		case r := <-p.running:
			p.running = nil
			w.probed(&r, now)
		default:
		}
		return
	}
	w.mu.Lock()
	st := w.status
	w.mu.Unlock()
	if now.Before(p.next) || !st.Ready || !st.Discovered {
		return
	}
	if busy(&st.Metrics) || w.cfg.Probe.Idle != nil && !w.cfg.Probe.Idle() {
		p.next = now.Add(jitter(probeWait))
		return
	}
	ask, ok := w.newProbe(&st)
	if !ok { // known without asking
		w.probed(&probeResult{isolation: endpoint.IsolationNone, life: p.life}, now)
		return
	}
	p.running = make(chan probeResult, 1)
	w.note(func(s *Status) { s.Probe.Probes++ })
	life := p.life
	w.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		isolation, err := ask.run(ctx)
		p.running <- probeResult{isolation, err, life}
		w.poke()
	})
}

// busy reports whether an engine should not be bothered.
func busy(m *Metrics) bool { return m.Waiting > 0 || m.KVUsage > probeKV || m.Sleeping }

// probed notes the result of a probe.
func (w *Watcher) probed(r *probeResult, now time.Time) {
	p := &w.probes
	if r.err == nil && r.life != p.life {
		r.err = errRestarted
	}
	if r.err == nil && r.isolation == endpoint.IsolationUnverified {
		if p.silent++; p.silent < maxSilent {
			r.err = errSilent
		}
	} else if r.err == nil {
		p.silent = 0
	}
	if r.err != nil {
		p.next = now.Add(jitter(min(probeRetry, w.cfg.Probe.Every)))
		w.note(func(s *Status) { s.Probe.Faults++; s.Probe.Fault = r.err.Error() })
		w.cfg.Log.Debug("isolation probe", "endpoint", w.cfg.URL, "err", r.err)
		return
	}
	p.next = now.Add(jitter(w.cfg.Probe.Every))
	var before string
	w.note(func(s *Status) {
		before = s.Probe.Isolation
		s.Probe.Isolation, s.Probe.At, s.Probe.Fault = r.isolation, now, ""
	})
	if r.isolation == endpoint.IsolationNone && before != r.isolation {
		w.cfg.Log.Warn("engine does not keep caches of different salts apart: it gets requests of the public namespace only")
	}
}

// unprove forgets what probes have found: the engine is another process.
func (w *Watcher) unprove() {
	w.probes.next, w.probes.silent = time.Time{}, 0
	w.probes.life++
	w.note(func(s *Status) { s.Probe.Isolation = endpoint.IsolationUnverified })
}

// isolationProbe is one probe of one engine.
type isolationProbe struct {
	client  *Client
	dialect Dialect
	model   string
	field   string // of the salt
	prompt  []int
	block   int
}

// newProbe makes a probe; ok is false if the engine is known to ignore salts.
func (w *Watcher) newProbe(st *Status) (p *isolationProbe, ok bool) {
	p = &isolationProbe{client: w.client, dialect: w.cfg.Dialect, field: llmapi.SaltField(llmapi.OpCompletions, w.cfg.Dialect.Name())}
	if p.field == "" || st.Capabilities.NoSalt.Has(llmapi.OpCompletions) {
		return nil, false
	}
	for _, m := range st.Capabilities.Models {
		if m.Base == "" {
			p.model = m.Name
			break
		}
	}
	p.block = w.block(&st.Metrics)
	if p.block <= 0 {
		p.block = 16
	}
	n := probeBlocks*p.block + 1
	if limit := st.Capabilities.MaxModelLen; limit > 1 {
		n = min(n, limit-1)
	}
	p.prompt = randomPrompt(n)
	return p, true
}

// randomPrompt returns token ids that nobody has sent before. They are those
// that every vocabulary has: bytes, in the usual ones.
func randomPrompt(n int) []int {
	b := make([]byte, n)
	rand.Read(b) // never fails
	out := make([]int, n)
	for i, x := range b {
		out[i] = 33 + int(x)%200
	}
	return out
}

// errOthers: requests of others fell into the probe's counts.
var errOthers = errors.New("backend: other requests fell into the probe")

// run sends the probe and returns what it shows.
func (p *isolationProbe) run(ctx context.Context) (isolation string, err error) {
	one, other := randomSalt(), randomSalt()
	var found [3]int
	for i, salt := range []string{one, one, other} {
		if found[i], err = p.ask(ctx, salt); err != nil {
			return "", err
		}
	}
	switch {
	case found[0] > 0:
		return "", fmt.Errorf("backend: %d tokens of a prompt that is new were found in the cache", found[0])
	case found[1] < p.block:
		return endpoint.IsolationUnverified, nil // its cache is off, or it does not tell
	case found[2] > 0:
		return endpoint.IsolationNone, nil
	}
	return endpoint.IsolationVerified, nil
}

// ask sends the prompt under a salt and returns the tokens of it that were found
// in the cache: as the answer tells, else as the engine's counters do.
func (p *isolationProbe) ask(ctx context.Context, salt string) (int, error) {
	before, err := p.scrape(ctx)
	if err != nil {
		return 0, err
	}
	body, err := json.Marshal(map[string]any{"model": p.model, "prompt": p.prompt, "max_tokens": 1, "temperature": 0, p.field: salt})
	if err != nil {
		return 0, err
	}
	b, err := p.client.Post(ctx, "/v1/completions", body, maxAnswerBytes)
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

func (p *isolationProbe) scrape(ctx context.Context) (m Metrics, err error) {
	path := p.dialect.MetricsPath()
	if path == "" {
		return m, nil
	}
	b, err := p.client.Get(ctx, path, maxMetricsBytes)
	if err != nil {
		return m, err
	}
	return p.dialect.ParseMetrics(b), nil
}

// counted returns what the counters have grown by, once they count the prompt. An
// engine writes them a step after its answer.
func (p *isolationProbe) counted(ctx context.Context, before *Metrics) (int, error) {
	if !before.HasCache {
		return 0, nil // it does not tell
	}
	const tries, pause = 20, 100 * time.Millisecond
	for range tries {
		m, err := p.scrape(ctx)
		if err != nil {
			return 0, err
		}
		switch asked := m.CacheQueries - before.CacheQueries; {
		case math.Abs(asked-float64(len(p.prompt))) < 0.5:
			return int(m.CacheHits - before.CacheHits), nil
		case asked > float64(len(p.prompt)):
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

// randomSalt is a salt that no namespace has.
func randomSalt() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Post sends JSON and returns the body of an answer of 200, at most limit bytes.
func (c *Client) Post(ctx context.Context, path string, body []byte, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.do(req, limit)
}
