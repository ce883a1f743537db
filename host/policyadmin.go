package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// policyAdmin is the admin API's face of the policy.
type policyAdmin struct{ h *Host }

// Policy implements admin.Policies.
func (a policyAdmin) Policy(context.Context) (*admin.PolicyStatus, error) { return a.status(), nil }

func (a policyAdmin) status() *admin.PolicyStatus {
	p := a.h.policies
	l := a.h.rules.Acquire()
	defer l.Release()
	g := l.Value()
	c := &g.cfg.Policy
	out := &admin.PolicyStatus{Engine: "static", State: "ok", RulesRevision: g.number}
	if c.Dir == "" {
		return out
	}
	stale := p.health.StaleFor(p.h.now())
	out.Engine, out.Dir, out.OnError, out.StaleSeconds, out.Fallbacks, out.Stats = "opa", c.Dir, c.OnError, stale.Seconds(), p.health.Fallbacks(), p.counters.Stats()
	out.DecisionError = p.health.LastError()
	p.mu.Lock()
	out.LastAttempt, out.Source, out.Since, out.Diff = p.last.at, p.last.from, p.last.since, p.diff
	err := p.last.err
	p.mu.Unlock()
	if err != nil {
		out.LastError = err.Error()
		out.Faults, _ = errors.AsType[policy.Faults](err)
	}
	if s := g.policy; s != nil {
		out.Revision, out.Inputs, out.Tests, out.Cached = s.Revision(), s.Inputs(), s.Tests(), s.Cached()
		out.PolicyDigest, out.DataDigest = s.Source().Digest()
	}
	switch {
	case g.policy == nil:
		out.State = "unloaded"
	case c.MaxStale > 0 && stale > time.Duration(c.MaxStale):
		out.State = "stale"
	case stale > 0:
		out.State = "degraded"
	}
	return out
}

// ReloadPolicy implements admin.Policies.
func (a policyAdmin) ReloadPolicy(_ context.Context, force bool) (*admin.PolicyStatus, error) {
	if _, err := a.h.policies.reload("asked", force); err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	return a.status(), nil
}

// PushPolicy implements admin.Policies.
func (a policyAdmin) PushPolicy(_ context.Context, files map[string][]byte, force bool) (*admin.PolicyStatus, error) {
	if _, err := a.h.policies.push(files, force); err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	return a.status(), nil
}

// PolicyDiff implements admin.Policies.
func (a policyAdmin) PolicyDiff(_ context.Context, files map[string][]byte) (*policy.Diff, error) {
	s, err := a.inForce()
	if err != nil {
		return nil, err
	}
	src, err := policy.FromFiles(files)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	l := a.h.rules.Acquire()
	cfg := a.h.policies.config(&l.Value().cfg.Policy)
	l.Release()
	cfg.Counters = new(policy.Counters)
	next, err := policy.Load(src, cfg, s)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	return policy.Compare(s, next, s.Live(replayInputs), replayFor), nil
}

// PolicyExplain implements admin.Policies.
func (a policyAdmin) PolicyExplain(_ context.Context, input []byte) (*policy.Explanation, error) {
	s, err := a.inForce()
	if err != nil {
		return nil, err
	}
	in, err := policy.ParseInput(input)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	return s.Explain(in), nil
}

// inForce returns the policy in force.
func (a policyAdmin) inForce() (*policy.Snapshot, error) {
	l := a.h.rules.Acquire()
	defer l.Release()
	g := l.Value()
	switch {
	case g.cfg.Policy.Dir == "":
		return nil, fmt.Errorf("%w: the configuration has no policy.dir: every tenant may use every model", admin.ErrNotFound)
	case g.policy == nil:
		return nil, fmt.Errorf("%w: no policy could be loaded: see GET /v1/policy", admin.ErrNotFound)
	}
	return g.policy, nil
}

// policyAuthorizer narrows what the admin API's scopes allow by what the policy
// in force allows. Where there is none, or it has no rule for that, scopes alone
// decide; one that gives no answer allows nothing.
type policyAuthorizer struct{ h *Host }

// Authorize implements admin.Authorizer.
func (a policyAuthorizer) Authorize(w *admin.Question) (bool, string) {
	l := a.h.rules.Acquire()
	s := l.Value().policy
	l.Release()
	if s == nil {
		return true, ""
	}
	q := policy.AdminQuestion{Principal: w.Principal, Verb: w.Verb, Name: w.Object, Undo: w.Undo}
	kind, name, _ := strings.Cut(w.Object, "/")
	switch {
	case kind == "tenant":
		q.Tenant = name
	case w.Verb == admin.ScopeExplainOwn:
		q.Tenant = w.Principal.Tenant // what is another's is asked about by another verb
	case w.Own:
		q.Author = w.Principal.Name()
	case w.Verb == admin.ScopePluginActivate && w.Version != "":
		// A version that is not there is refused when it is to be activated.
		q.Author = a.h.plugins.Author(name, w.Version)
	}
	answer, err := s.Admin(&q)
	switch {
	case errors.Is(err, policy.ErrNoRule):
		return true, ""
	case err != nil:
		return false, err.Error()
	}
	return answer.Allow, strings.Join(answer.Refusals, ", ")
}

// collectPolicy tells what the policy did.
func (h *Host) collectPolicy(e *telemetry.Emitter) {
	p := h.policies
	st := policyAdmin{h}.status()
	if st.Engine != "opa" {
		return
	}
	e.Emit(metric.PolicyLoads, float64(p.loads.Load()))
	e.Emit(metric.PolicyLoadFailures, float64(p.failures.Load()))
	e.Emit(metric.PolicyStaleSeconds, st.StaleSeconds)
	loaded := 0.0
	if st.State != "unloaded" {
		loaded = 1
	}
	e.Emit(metric.PolicyLoaded, loaded, st.Revision)
	e.Emit(metric.PolicyCacheHits, float64(st.Stats.Hits))
	e.Emit(metric.PolicyCacheMisses, float64(st.Stats.Misses))
	e.Emit(metric.PolicyCacheEvicted, float64(st.Stats.Evicted))
	e.Emit(metric.PolicyCacheEntries, float64(st.Cached))
	e.Emit(metric.PolicyEvaluations, float64(st.Stats.Evaluations))
	e.Emit(metric.PolicyEvaluationSeconds, float64(st.Stats.EvalNanos)/1e9)
	e.Emit(metric.PolicyErrors, float64(st.Stats.Errors))
	e.Emit(metric.PolicyFallbacks, float64(st.Fallbacks))
}
