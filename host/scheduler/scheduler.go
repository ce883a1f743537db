// Package scheduler places one request on one endpoint: it asks policy, works
// out the prompt's blocks, looks up who holds them, narrows the candidates,
// scores, keeps within the load envelope, picks, and charges the choice in the
// same step.
//
// A [Scheduler] is the immutable rules of one generation; what it knows of the
// fleet and of requests in flight is in a [State] that generations share.
package scheduler

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
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

	// MayWait says that the caller can have the request wait where every endpoint
	// is at its cap: the refusal then says what for, and is not counted or kept for
	// explain. Behind tells whether others in a lane wait who go before a request
	// of a priority; nil = nobody, or it is the request's turn. Queued is how long
	// it waited.
	MayWait bool
	Behind  func(lane string, priority int) bool
	Queued  time.Duration

	// Asked, Decision and Trace are set by Schedule to what policy was asked, what
	// it said (nil = nothing) and how, for logs.
	Asked    policy.Input
	Decision *policy.Decision
	Trace    policy.Trace

	// Quota is set by Schedule to what is left of the tenant's budgets, also
	// where it refuses; zero where nothing is limited.
	Quota quota.Usage
}

// Scheduler is the rules of one generation. It is immutable and safe for
// concurrent use.
type Scheduler struct {
	cfg      Config
	st       *State
	models   map[string]*model // by name and alias
	listed   []*model
	profiles map[string]*profile
}

type model struct {
	name     string
	created  int64
	alias    []string
	prompter Prompter
	pools    []poolUse
	key      uint64      // keyed hash of the name, for session keys
	state    *modelState // shared by all revisions
	lane     lane        // of pools

	capped    bool     // a pool bounds the requests of its endpoints
	queue     string   // where its requests wait for a place: the pools by name
	poolNames []string // the same, sorted
}

// poolUse is a pool as one model uses it.
type poolUse struct {
	*Pool
	served string
}

type profile struct {
	Profile
	native  *LeastWork // scores where no scorer is heard
	builtin bool       // the native one alone scores, which needs no reported columns
	direct  bool       // one scorer of weight 1: its scores are the sum
	want    ColumnSet  // that the cast reads
	weights []float64  // by scorer; nil = direct
	unit    Unit       // of the sum
	scale   float32    // how many times a token of cost counts in the sum
	own     float32
	cast    []PluginUse // scorers, filters, picker, in this order
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
		c := &cfg.Models[i]
		m := &model{name: c.Name, created: c.Created, alias: c.Aliases, prompter: c.Prompter, state: cfg.State.models.of(c.Name),
			key: maphash.String(cfg.State.keys, c.Name)}
		for _, r := range c.Pools {
			served := r.ServedAs
			if served == "" {
				served = c.Name
			}
			m.pools = append(m.pools, poolUse{pools[r.Pool], served})
			m.capped = m.capped || pools[r.Pool].MaxInflight > 0
			m.poolNames = append(m.poolNames, r.Pool)
		}
		slices.Sort(m.poolNames)
		m.queue, m.lane = strings.Join(m.poolNames, "\n"), cfg.State.lanes.of(m.poolNames)
		s.listed = append(s.listed, m)
		s.models[c.Name] = m
		for _, a := range c.Aliases {
			s.models[a] = m
		}
	}
	for _, p := range cfg.Profiles {
		s.profiles[p.Name] = newProfile(p)
	}
	if s.profiles[""] = s.profiles["default"]; s.profiles[""] == nil {
		s.profiles[""] = newProfile(Profile{Name: "default", Holdout: 0})
		s.profiles["default"] = s.profiles[""]
	}
	return s, nil
}

func newProfile(p Profile) *profile {
	n := NewLeastWork(p.Objective)
	if len(p.Scorers) == 0 {
		p.Scorers = []Weighted{{Scorer: n, Weight: 1}}
	}
	if p.Objective == "" {
		p.Objective = Blend
	}
	p.Envelope = p.Envelope.withDefaults()
	out := &profile{Profile: p, native: n, unit: p.Scorers[0].Scorer.Unit(), own: n.w.Own, cast: castOf(&p), want: p.wants()}
	if out.Normalize == "" {
		out.Normalize = NormalizeOff
	}
	if out.direct = len(p.Scorers) == 1 && p.Scorers[0].Weight == 1; out.Normalize.on() {
		out.direct, out.unit = false, UnitScore
	}
	var sum float64
	for i := range p.Scorers {
		sum += p.Scorers[i].Weight
		if !out.direct {
			out.weights = append(out.weights, p.Scorers[i].Weight)
		}
	}
	out.scale = float32(max(0, sum))
	_, native := p.Scorers[0].Scorer.(*LeastWork)
	out.builtin = native && out.direct && len(p.Filters) == 0 && p.Picker == nil
	return out
}

// reads returns the columns to fill for a decision.
func (p *profile) reads() ColumnSet {
	if p.Wants == nil {
		return p.want
	}
	return p.want | p.Wants()
}

// Schedule places r and charges the endpoint. The caller must end the
// placement with Done. The error is a *DeniedError.
func (s *Scheduler) Schedule(r *Request) (*Placement, error) {
	d := s.st.getDecision()
	defer s.st.putDecision(d)
	d.begin(s, r, modePlace)
	if _, named := r.API.Value("cache_salt"); named {
		s.st.stats.clientSalts.Add(1)
	}
	if err := d.run(); err != nil {
		d.unadmit(err)
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
	d.tell()
	return p, nil
}

// DryRun decides on r without charging, predicting, counting or recording
// anything. A refusal is an explanation with Allow false, not an error.
func (s *Scheduler) DryRun(r *Request) *Explanation {
	d := s.st.getDecision()
	defer s.st.putDecision(d)
	d.begin(s, r, modeDryRun)
	err := d.run()
	d.endStage(stagePlace)
	return s.explainDecision(d, err)
}

// place says where and when a decision is made.
func (s *Scheduler) place(in *policy.Input, now time.Time) {
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
		if !m.knownTo(p) {
			continue
		}
		in := policy.Input{Principal: p, Operation: llmapi.OpModels.String(), Model: m.name, SizeClass: sizeClass(0), Labels: labels}
		s.place(&in, s.st.now())
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

// keptFrom reports whether the pool is for another tenant than p's.
func (u *poolUse) keptFrom(p *identity.Principal) bool {
	return u.Tenant != "" && (p == nil || u.Tenant != p.Tenant)
}

// knownTo reports whether p is told of m: not if all its pools are kept from p.
func (m *model) knownTo(p *identity.Principal) bool {
	return slices.ContainsFunc(m.pools, func(u poolUse) bool { return !u.keptFrom(p) })
}

// maxLen returns the longest context any endpoint offers p for m, 0 = unknown.
func (m *model) maxLen(snap *endpoint.Snapshot, p *identity.Principal) int {
	longest := 0
	for i := range m.pools {
		if m.pools[i].keptFrom(p) {
			continue
		}
		for _, id := range snap.Pool(m.pools[i].Name).AppendIDs(nil) {
			longest = max(longest, int(snap.MaxModelLen[id]))
		}
	}
	return longest
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
