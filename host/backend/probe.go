package backend

import (
	"context"
	"errors"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Probe is whether and when an endpoint's isolation is probed.
type Probe struct {
	// Every is between two probes with a result, jittered by a tenth. 0 = the
	// endpoint is never probed.
	Every time.Duration
	// Idle reports whether the endpoint may be probed now: it takes requests and
	// this router has none there. nil = always.
	Idle func() bool
	// LogOnly: answers that report another namespace's cached tokens are logged and
	// counted, and the endpoint keeps its isolation. For engines that are shared
	// with other routers and send no cache events: what those routers sent is not
	// known here.
	LogOnly bool
}

const (
	// probeRetry is after a probe without a result: the engine was busy, or other
	// requests changed its counters.
	probeRetry = time.Minute
	// probeWait is after the engine was found busy, when the next check is cheap.
	probeWait = 5 * time.Second
	// probeTimeout bounds a probe of at most four requests, each with one token of
	// output: 30 s are for an engine that computes 300 prompt tokens a second.
	probeTimeout = 30 * time.Second
	// probeKV is the share of KV memory in use above which blocks may be evicted
	// between two requests of a probe.
	probeKV = 0.8
	// maxSilent is how many probes in a row may show nothing before the result of
	// an earlier one is dropped: under load a block can be evicted between two
	// requests.
	maxSilent = 3
)

// ProbeStats is what is known of an endpoint's isolation.
type ProbeStats struct {
	Isolation   string    // one of endpoint's Isolation words
	Reason      string    // why it is none, or ""
	At          time.Time // of the last change or confirmation
	Fault       string    // why the last probe had no result, or ""
	Tokens      int       // prompt tokens of the last probe with a result: larger chunks than that it cannot reach
	Probes      uint64    // sent
	Faults      uint64    // of these, without a result
	Unexplained uint64    // answers with cached tokens that their namespace cannot hold
	Unproven    uint64    // the same, where the router's records are incomplete
	Revocations uint64    // times isolation was revoked
}

// probes is the schedule of an endpoint's probes. It belongs to the goroutine in
// Run.
type probes struct {
	next    time.Time
	running chan probeResult // nil: none runs
	life    int              // number of engine restarts seen
	silent  int              // results in a row that showed nothing
	earlier *isolationProbe  // the last one with a result, nil: none
}

// probeResult is what a probe has shown.
type probeResult struct {
	isolation string
	reason    string // why none
	err       error
	life      int // of the engine when the probe began
	probe     *isolationProbe
}

var (
	errRestarted = errors.New("backend: the engine restarted during the probe")
	errSilent    = errors.New("backend: the prompt was not found again under its own salt")
)

// probe starts a probe if one is due, and takes the result of one that ended.
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
	probe, why := w.newProbe(&st)
	if why != "" { // known without a request
		w.probed(&probeResult{isolation: endpoint.IsolationNone, reason: why, life: p.life}, now)
		return
	}
	w.startProbe(ctx, probe)
}

// startProbe runs a probe in a goroutine, which wakes Run when it has ended.
func (w *Watcher) startProbe(ctx context.Context, probe *isolationProbe) {
	p := &w.probes
	p.running = make(chan probeResult, 1)
	w.note(func(s *Status) { s.Probe.Probes++ })
	life, earlier := p.life, p.earlier
	w.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		r := probe.run(ctx, earlier)
		r.life, r.probe = life, probe
		p.running <- r
		w.wakeRun()
	})
}

// busy reports whether an engine has too much to do for a probe.
func busy(m *dialect.Metrics) bool { return m.Waiting > 0 || m.KVUsage > probeKV || m.Sleeping }

// probed records the result of a probe.
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
	if r.probe != nil {
		p.earlier = r.probe
	}
	w.label(r, now)
}

// label sets what a probe has found, unless an answer has revoked it: that has
// shown what the probe does not reach.
func (w *Watcher) label(r *probeResult, now time.Time) {
	var before string
	w.note(func(s *Status) {
		before = s.Probe.Isolation
		s.Probe.Fault = ""
		if w.revoked.Load() {
			return
		}
		s.Probe.Isolation, s.Probe.Reason, s.Probe.At = r.isolation, r.reason, now
		if r.probe != nil {
			s.Probe.Tokens = len(r.probe.prompt)
		}
	})
	if r.isolation == endpoint.IsolationNone && before != r.isolation {
		w.cfg.Log.Warn("engine does not isolate the caches of different salts: it receives no salted requests", "reason",
			r.reason)
	}
}

// resetIsolation drops what is known of the engine's isolation, because it is
// another process or an operator readmits it. A probe is due at once. It belongs to the
// goroutine in Run.
func (w *Watcher) resetIsolation() {
	w.revoked.Store(false)
	w.dropProbes()
}

// dropProbes drops what probes have found; what an answer has shown stays.
func (w *Watcher) dropProbes() {
	w.probes.next, w.probes.silent = time.Time{}, 0
	w.probes.life++
	w.note(func(s *Status) {
		if !w.revoked.Load() {
			s.Probe.Isolation, s.Probe.Reason = endpoint.IsolationUnverified, ""
		}
	})
}

// newProbe makes a probe. why is not empty if the engine is known to ignore salts.
func (w *Watcher) newProbe(st *Status) (p *isolationProbe, why string) {
	field, why := w.saltField(st)
	if why != "" {
		return nil, why
	}
	p = &isolationProbe{client: w.client, dialect: w.cfg.Dialect, field: field, block: max(w.block(&st.Metrics), 0)}
	for _, m := range st.Capabilities.Models {
		if m.Base == "" {
			p.model = m.Name
			break
		}
	}
	if p.block == 0 {
		p.block = 16
	}
	p.prompt = randomPrompt(probeLength(p.block, st.Capabilities.MaxModelLen,
		st.Metrics.CacheBlocks*st.Metrics.BlockTokens))
	return p, ""
}
