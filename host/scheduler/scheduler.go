// Package scheduler places one request on one endpoint: it applies the policy's
// decision, computes the prompt's blocks, looks up which endpoints hold them,
// narrows the candidates, scores them, keeps within the load envelope, picks one,
// and charges it in the same step.
//
// A [Scheduler] is the immutable rules of one revision. What is known of the
// fleet and of requests in flight is in a [State] that all revisions share.
package scheduler

import (
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/quota"
)

// Request is one request to place. The scheduler keeps nothing of API beyond
// the placement's first token.
type Request struct {
	API       *llmapi.Request
	Principal *identity.Principal
	ID        string           // x-request-id; copied where it is kept
	Session   string           // session hint of the client, "" = none
	Priority  string           // class the client hints at, "" = none
	Labels    []identity.Label // what the client's headers say, sorted by name
	Received  time.Time

	// MayWait reports that the caller can let the request wait while every endpoint
	// is at its cap: the refusal then has a Wait, and is neither counted nor kept
	// for explain. Behind reports whether requests that go before one of this
	// priority wait for the same pools; nil = none, or it is the request's turn. It
	// is called without locks. Queued is how long the request has waited.
	MayWait bool
	Behind  func(pools string, priority int) bool
	Queued  time.Duration

	// Asked, Decision and Trace are set by Schedule to the policy's input, its
	// decision (nil = none) and how it was made, for logs.
	Asked    policy.Input
	Decision *policy.Decision
	Trace    policy.Trace

	// Logged is the id of the decision in a log that also wants the outcome, "" = none.
	// Schedule does not use it.
	Logged string

	// Quota is set by Schedule to what is left of the tenant's budgets, also
	// where it refuses; zero where nothing is limited.
	Quota quota.Usage
}

// Scheduler is the rules of one revision. It is immutable and safe for concurrent
// use.
type Scheduler struct {
	cfg      Config
	st       *State
	models   map[string]*model // by name and alias
	listed   []*model
	profiles map[string]*profile
	rules    []profileRule // by which profiles are chosen, in order
}

// New checks cfg and builds a scheduler over cfg.State.
func New(cfg Config) (*Scheduler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Scheduler{cfg: cfg, st: cfg.State, models: map[string]*model{}, profiles: map[string]*profile{}}
	pools := map[string]*Pool{}
	for i := range cfg.Pools {
		pools[cfg.Pools[i].Name] = &cfg.Pools[i]
	}
	for i := range cfg.Models {
		m := newModel(&cfg.Models[i], cfg.State, pools)
		s.listed = append(s.listed, m)
		s.models[m.name] = m
		for _, alias := range m.alias {
			s.models[alias] = m
		}
	}
	for _, p := range cfg.Profiles {
		s.profiles[p.Name] = newProfile(p)
	}
	if s.profiles[""] = s.profiles["default"]; s.profiles[""] == nil {
		s.profiles[""] = newProfile(Profile{Name: "default", Holdout: 0})
		s.profiles["default"] = s.profiles[""]
	}
	s.rules = profileRules(cfg.Profiles, s.profiles)
	return s, nil
}

// Schedule places r and charges the endpoint. The caller must end the placement
// with Done. The error is ErrReplaced or a *DeniedError.
func (s *Scheduler) Schedule(r *Request) (*Placement, error) {
	d := s.st.getDecision()
	defer s.st.putDecision(d)
	d.begin(s, r, modePlace)
	if !d.current() {
		return nil, ErrReplaced
	}
	if _, named := r.API.Value("cache_salt"); named {
		s.st.stats.clientSalts.Add(1)
	}
	if err := d.run(); err != nil {
		d.endClaim(err)
		if err.Wait != nil {
			return nil, err
		}
		s.st.stats.refused(err)
		s.st.trace.of(d.seed).addDenied(d, err)
		return nil, err
	}
	p := d.newPlacement()
	p.start()
	d.endStage(stagePlace)
	s.st.stats.decided(d)
	p.trace = s.st.trace.of(d.seed).add(d)
	d.notifyDecided()
	return p, nil
}

// DryRun decides on r without charging, predicting, counting or recording
// anything. A refusal is an explanation whose Allow is false, not an error. DryRun
// returns nil where Schedule returns ErrReplaced.
func (s *Scheduler) DryRun(r *Request) *Explanation {
	d := s.st.getDecision()
	defer s.st.putDecision(d)
	d.begin(s, r, modeDryRun)
	if !d.current() {
		return nil
	}
	err := d.run()
	d.endStage(stagePlace)
	return s.explainDecision(d, err)
}

// fillRouter sets what policy may know of the router and the time.
func (s *Scheduler) fillRouter(in *policy.Input, now time.Time) {
	in.Region, in.HourUTC, in.CapacityState = s.cfg.Region, now.UTC().Hour(), "ok"
	if s.cfg.Capacity != nil {
		in.CapacityState = s.cfg.Capacity(in.Model)
	}
}

// Models lists the models policy lets principal use, with their aliases.
func (s *Scheduler) Models(p *identity.Principal) []llmapi.Model {
	var out []llmapi.Model
	snap, labels := s.st.store.Load(), inputLabels(&Request{Principal: p})
	for _, m := range s.listed {
		if !m.visibleTo(p) {
			continue
		}
		in := policy.Input{
			Principal: p, Operation: llmapi.OpModels.String(), Model: m.name, SizeClass: sizeClass(0), Labels: labels,
		}
		s.fillRouter(&in, s.st.now())
		dec, err := s.cfg.Policy.Decide(&in)
		if err != nil || dec == nil || !dec.Allow {
			continue
		}
		length := m.maxLen(snap, p)
		out = append(out, llmapi.Model{ID: m.name, Created: m.created, MaxModelLen: length})
		for _, a := range m.alias {
			out = append(out, llmapi.Model{ID: a, Created: m.created, MaxModelLen: length, Root: m.name})
		}
	}
	return out
}

// sizeClass names the size of a body for policy: a class, so that it can key a
// decision cache.
func sizeClass(bytes int) string {
	switch {
	case bytes < 4<<10:
		return "xs"
	case bytes < 64<<10:
		return "s"
	case bytes < 1<<20:
		return "m"
	case bytes < 8<<20:
		return "l"
	}
	return "xl"
}
