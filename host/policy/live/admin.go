package live

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

// Rules are the rules of the router, which include the policy. The methods may be
// called concurrently.
type Rules interface {
	// Policy returns the policy in force.
	Policy() InForce
	// PutPolicy plans a revision with the policy that load returns (nil = the one in
	// force) and puts it in force. It calls load outside any lock, and again if another
	// policy came into force in the meantime. On error nothing has changed.
	PutPolicy(load func(base InForce) (*Candidate, error)) (InForce, error)
	// Disable refuses the requests of tenants until another policy is in force, or
	// the directory matches the policy in force again.
	Disable(tenants []string)
}

// errNoDir is returned for operations that need a policy.
var errNoDir = errors.New("policy: the configuration has no policy.dir")

// reload puts the policy of the directory in force. On error nothing has changed.
// Requests of tenants that the directory disables are refused before the policy is
// compiled, and whether or not it is accepted.
func (k *Keeper) reload(rules Rules, why string, force bool) (InForce, error) {
	return k.put(rules, why, func(base InForce) (*Candidate, error) {
		rules.Disable(k.Withdrawn(base.Config, base, true))
		return k.FromDir(base.Config, base, true, force)
	})
}

// put puts the policy that load returns in force, and logs and counts a refusal.
func (k *Keeper) put(rules Rules, why string, load func(base InForce) (*Candidate, error)) (InForce, error) {
	in, err := rules.PutPolicy(func(base InForce) (*Candidate, error) {
		if base.Config.Dir == "" {
			return nil, errNoDir
		}
		c, err := load(base)
		if c != nil {
			k.opt.Log.Info("policy reload", "cause", why)
		}
		return c, err
	})
	if err != nil && !errors.Is(err, errNoDir) {
		k.Refused(err)
	}
	return in, err
}

// Admin serves the policy's part of the admin API.
type Admin struct {
	Keeper *Keeper
	Rules  Rules
	// Author returns the name of the principal that pushed a stored version of a
	// plugin, "" if it is not known. It is input of the policy's admin rules.
	Author func(plugin, digest string) string
}

// Policy implements admin.Policies.
func (a Admin) Policy(context.Context) (*admin.PolicyStatus, error) { return a.Status(), nil }

// Status returns the policy as operators see it.
func (a Admin) Status() *admin.PolicyStatus {
	k, in := a.Keeper, a.Rules.Policy()
	c := in.Config
	out := &admin.PolicyStatus{Engine: "static", State: "ok", RulesRevision: in.Revision}
	if c.Dir == "" {
		return out
	}
	stale := k.health.StaleFor(k.opt.Now())
	out.Engine, out.Dir, out.OnError, out.Stats = "opa", c.Dir, c.OnError, k.counters.Stats()
	out.StaleSeconds, out.Fallbacks, out.DecisionError = stale.Seconds(), k.health.Fallbacks(), k.health.LastError()
	k.mu.Lock()
	out.LastAttempt, out.Source, out.Since, out.Diff = k.last.at, k.last.from, k.last.since, k.diff
	err := k.last.err
	k.mu.Unlock()
	if err != nil {
		out.LastError = err.Error()
		out.Faults, _ = errors.AsType[policy.Faults](err)
	}
	if s := in.Snapshot; s != nil {
		out.Revision, out.Inputs, out.Tests, out.Cached = s.Revision(), s.Inputs(), s.Tests(), s.Cached()
		out.PolicyDigest, out.DataDigest = s.Source().Digest()
	}
	switch {
	case in.Snapshot == nil:
		out.State = "unloaded"
	case c.MaxStale > 0 && stale > time.Duration(c.MaxStale):
		out.State = "stale"
	case stale > 0:
		out.State = "degraded"
	}
	return out
}

// ReloadPolicy implements admin.Policies.
func (a Admin) ReloadPolicy(_ context.Context, force bool) (*admin.PolicyStatus, error) {
	if _, err := a.Keeper.reload(a.Rules, "asked", force); err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	return a.Status(), nil
}

// PushPolicy implements admin.Policies.
func (a Admin) PushPolicy(_ context.Context, files map[string][]byte, force bool) (*admin.PolicyStatus, error) {
	_, err := a.Keeper.put(a.Rules, "pushed", func(base InForce) (*Candidate, error) {
		return a.Keeper.FromFiles(files, base, force)
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	return a.Status(), nil
}

// PolicyDiff implements admin.Policies.
func (a Admin) PolicyDiff(_ context.Context, files map[string][]byte) (*policy.Diff, error) {
	s, err := a.inForce()
	if err != nil {
		return nil, err
	}
	src, err := policy.FromFiles(files)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	cfg := a.Keeper.config(a.Rules.Policy().Config)
	cfg.Counters = new(policy.Counters)
	next, err := policy.Load(src, cfg, s)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	return policy.Compare(s, next, s.Live(replayInputs), replayFor), nil
}

// PolicyExplain implements admin.Policies.
func (a Admin) PolicyExplain(_ context.Context, input []byte) (*policy.Explanation, error) {
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
func (a Admin) inForce() (*policy.Snapshot, error) {
	in := a.Rules.Policy()
	switch {
	case in.Config.Dir == "":
		return nil, fmt.Errorf("%w: the configuration has no policy.dir: every tenant may use every model", admin.ErrNotFound)
	case in.Snapshot == nil:
		return nil, fmt.Errorf("%w: no policy could be loaded: see GET /v1/policy", admin.ErrNotFound)
	}
	return in.Snapshot, nil
}

// Authorize implements admin.Authorizer: the policy in force narrows what the admin
// API's scopes allow. If there is no policy, or it has no rule for admin calls, the
// scopes alone decide; a policy that gives no answer allows nothing.
func (a Admin) Authorize(w *admin.Question) (bool, string) {
	s := a.Rules.Policy().Snapshot
	if s == nil {
		return true, ""
	}
	q := policy.AdminQuestion{Principal: w.Principal, Verb: w.Verb, Name: w.Object, Undo: w.Undo}
	kind, name, _ := strings.Cut(w.Object, "/")
	switch {
	case kind == "tenant":
		q.Tenant = name
	case w.Verb == admin.ScopeExplainOwn:
		q.Tenant = w.Principal.Tenant // requests of other tenants have another verb
	case w.Own:
		q.Author = w.Principal.Name()
	case w.Verb == admin.ScopePluginActivate && w.Version != "":
		// A version that does not exist is refused at its activation.
		q.Author = a.Author(name, w.Version)
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

// Collect emits the metrics of the policy.
func (a Admin) Collect(e *telemetry.Emitter) {
	p, st := a.Keeper, a.Status()
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
