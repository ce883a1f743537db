package scheduler

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/policy"
)

// Explanation reports why a request went where it went. Its JSON is the output of
// `kvasir explain`.
type Explanation struct {
	RequestID     string   `json:"request_id"`
	Tenant        string   `json:"tenant"`
	Allow         bool     `json:"allow"`
	Reason        string   `json:"reason"`
	Status        int      `json:"status"`
	Rules         []string `json:"rules"`
	Model         string   `json:"model"`
	Pool          string   `json:"pool"`
	NamespaceHash string   `json:"namespace_hash"`
	Tokens        int      `json:"tokens"`
	TokensExact   bool     `json:"tokens_exact"`
	PromptReason  string   `json:"prompt_reason,omitempty"`
	BlockTokens   int      `json:"block_tokens"`

	Candidates []Candidate `json:"candidates"`
	Order      []string    `json:"order"`  // endpoints by preference
	Chosen     string      `json:"chosen"` // after retries
	Moves      []Move      `json:"moves"`  // rules that changed the choice, in order
	Retries    int         `json:"retries"`
	Kind       string      `json:"kind"`
	Arm        string      `json:"arm"` // locality or holdout
	Objective  string      `json:"objective"`

	Profile       string `json:"profile"`
	ProfileReason string `json:"profile_reason"` // why it is this one

	ExpectedTTFT    float64 `json:"expected_ttft_ms"` // 0 = nothing was learned on the endpoint
	ExpectedTPOT    float64 `json:"expected_tpot_ms"` // likewise
	PredictedCached int     `json:"predicted_cached_tokens"`
	ReportedCached  *int    `json:"reported_cached_tokens"`

	Policy         policy.Fields      `json:"policy,omitempty"` // fields of the decision; nil = none was made
	Plugins        []PluginUse        `json:"plugins"`
	PolicyRevision string             `json:"policy_revision"`
	Revision       uint64             `json:"revision"` // of the rules that decided
	StagesMicros   map[string]float64 `json:"stages_us"`
	QueuedMillis   float64            `json:"queued_ms,omitempty"` // time that it waited for a place
	Outcome        *OutcomeSeen       `json:"outcome,omitempty"`

	// Counterfactual is what other profiles and baselines would have chosen; only
	// Scheduler.ExplainCounterfactual computes it.
	Counterfactual []Alternative `json:"counterfactual,omitempty"`
}

// Move is one change of the choice by a rule: the scores, or the rules before it, would
// have chosen From.
type Move struct {
	Rule string `json:"rule"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Candidate is one endpoint of the model's pools.
type Candidate struct {
	Endpoint string             `json:"endpoint"`
	State    string             `json:"state"` // kept, filtered, enveloped
	Reason   string             `json:"reason"`
	Matched  map[string]int     `json:"matched_tokens"` // by tier: gpu, host, disk
	Columns  map[string]float32 `json:"columns"`
	Scores   map[string]Score   `json:"scores"` // by plugin
	Total    float32            `json:"total"`  // what the pick compared, higher is better
	// EarlierBlocks says that it may hold blocks that the router had not seen: its report
	// may exceed the prediction.
	EarlierBlocks bool `json:"earlier_blocks,omitempty"`
}

// Score is a scorer's score of a candidate.
type Score struct {
	Score float32 `json:"score"`
	// Counted is the term of the sum, where the profile weights or normalizes scores.
	Counted *float64           `json:"counted,omitempty"`
	Terms   map[string]float32 `json:"terms"`
}

// PluginUse is a scorer, filter or picker that took part in a decision.
type PluginUse struct {
	Name   string `json:"name"`
	Digest string `json:"digest"` // of the plugin, or "builtin"
	Fault  string `json:"fault"`  // why its result did not count, "" = it did
	Note   string `json:"note,omitempty"`
}

// OutcomeSeen is the outcome of the request, once known.
type OutcomeSeen struct {
	Status     int     `json:"status"`
	Err        string  `json:"error"` // exchange.End.Cause
	TTFTMillis float64 `json:"ttft_ms"`
	E2EMillis  float64 `json:"e2e_ms"`
}

// TierNames are the names of an endpoint's memory tiers.
var TierNames = [MaxTiers]string{"gpu", "host", "disk"}

// Digester is implemented by scorers, filters and pickers that are plugins.
type Digester interface{ Digest() string }

// Noter is implemented by scorers, filters and pickers with a note for explain, such
// as that they replace another version. "" = none.
type Noter interface{ Note() string }

// Explain returns the newest decision that is kept about a tenant's request, without
// the terms of plugins. Tenants that use the same request id each have their own
// decision; another tenant's id is treated as unknown.
func (s *State) Explain(tenant, requestID string) (*Explanation, bool) {
	hash := s.hashID(requestID)
	h, cands, more, ok := s.trace.of(hash).copyOut(tenant, requestID, hash)
	if !ok {
		return nil, false
	}
	return explain(requestID, &h, cands, &more), true
}

// ExplainTenants returns the tenants for which a decision about the request id is
// kept, sorted: several if they used the same id.
func (s *State) ExplainTenants(requestID string) []string {
	hash := s.hashID(requestID)
	return s.trace.of(hash).tenants(requestID, hash)
}

// explainDecision renders a decision that was not recorded.
func (s *Scheduler) explainDecision(d *decision, err *DeniedError) *Explanation {
	var h traceHead
	d.fillHead(&h)
	h.denied = err
	cands := make([]candTrace, len(d.cands))
	for i := range cands {
		d.record(&cands[i], i)
	}
	var more [abi.NumColumns][]float32
	if h.held != 0 {
		more = d.b.More
	}
	e := explain(d.r.ID, &h, cands, &more)
	s.fillTerms(e, &h, cands, &more)
	return e
}

// explain renders a recorded decision.
func explain(id string, h *traceHead, cands []candTrace, more *[abi.NumColumns][]float32) *Explanation {
	e := &Explanation{
		RequestID: id, Tenant: h.tenant, Allow: true, Status: 200, Rules: h.rules, Model: h.model, NamespaceHash: h.namespace,
		Tokens: h.tokens, TokensExact: h.known == promptExact, PromptReason: h.inexact, BlockTokens: h.blockTokens,
		Kind: h.kind.String(), Arm: h.arm.String(), Objective: h.objective,
		Profile: h.profile, ProfileReason: h.profileWhy, Retries: int(h.retries),
		PredictedCached: int(h.predicted), PolicyRevision: h.revision, Revision: h.rulesRevision,
		Policy: policyFields(h.dec), StagesMicros: map[string]float64{}, Order: []string{},
		Candidates: []Candidate{}, Plugins: []PluginUse{}, Moves: []Move{},
	}
	for _, m := range h.moves.list[:h.moves.n] {
		e.Moves = append(e.Moves, Move{m.rule.String(), cands[m.from].info.URL, cands[m.to].info.URL})
	}
	e.ExpectedTTFT, e.ExpectedTPOT = micros(h.expected.ttft)/1e3, micros(h.expected.tpot)/1e3
	e.QueuedMillis = micros(h.queued) / 1e3
	if e.Rules == nil {
		e.Rules = []string{}
	}
	if h.reported >= 0 {
		n := int(h.reported)
		e.ReportedCached = &n
	}
	for i, name := range StageNames {
		e.StagesMicros[name] = micros(h.took[i])
	}
	e.plugins(h)
	if h.done {
		e.Outcome = &OutcomeSeen{
			Status: h.status, Err: h.end.Cause(), TTFTMillis: micros(h.ttft) / 1e3, E2EMillis: micros(h.e2e) / 1e3,
		}
	}
	e.candidates(h, cands)
	e.columns(cands, more)
	if h.denied != nil {
		e.Allow, e.Reason, e.Status, e.Kind = false, h.denied.Message, h.denied.Status, ""
	}
	return e
}

// plugins lists the extensions that were called. In the control arm scorers and
// picker are not; where no scorer counts, the built-in follows them.
func (e *Explanation) plugins(h *traceHead) {
	for i, u := range h.extensions {
		filter := i >= h.scorers && i < h.scorers+h.filters
		if h.arm == armLocality || filter {
			u.Fault = h.faultOf(i)
			e.Plugins = append(e.Plugins, u)
		}
	}
	if h.source == sourceBuiltin {
		e.Plugins = append(e.Plugins, PluginUse{Name: h.native.Name(), Digest: "builtin"})
	}
}

// faultOf returns why the result of an extension did not count, "" = it did.
func (h *traceHead) faultOf(use int) string {
	for _, f := range h.faults {
		if f.use == use {
			return f.err.Error()
		}
	}
	return ""
}

// candidates renders the candidates, and their order of preference.
func (e *Explanation) candidates(h *traceHead, cands []candTrace) {
	order := make([]int, 0, len(cands))
	for i := range cands {
		e.Candidates = append(e.Candidates, cands[i].render(h))
		if cands[i].state != candFiltered && h.chosen >= 0 {
			order = append(order, i)
		}
	}
	e.counted(h, cands, order)
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &cands[i], &cands[j]
		return cmp.Or(cmp.Compare(b2i(int32(i) != h.chosen), b2i(int32(j) != h.chosen)),
			cmp.Compare(a.state, b.state), cmp.Compare(a.total, b.total))
	})
	for _, i := range order {
		e.Order = append(e.Order, cands[i].info.URL)
	}
	if h.chosen >= 0 {
		e.Chosen, e.Pool = cands[h.chosen].info.URL, cands[h.chosen].info.Pool
	}
}

// columns adds the columns that only plugins read to the scored candidates.
func (e *Explanation) columns(cands []candTrace, more *[abi.NumColumns][]float32) {
	k := 0
	for i := range cands {
		if cands[i].state == candFiltered {
			continue
		}
		for c, col := range more {
			if k < len(col) {
				e.Candidates[i].Columns[abi.Columns[c].Name] = col[k]
			}
		}
		k++
	}
}

// counted sets the terms of the sum, where they are not the scores themselves. at are
// the indices of the scored candidates.
func (e *Explanation) counted(h *traceHead, cands []candTrace, at []int) {
	if h.source == sourceBuiltin || h.weights == nil {
		return
	}
	part := make([]float32, len(at))
	for k := range h.scorers {
		if h.faultOf(k) != "" {
			continue
		}
		for i, c := range at {
			part[i] = cands[c].parts[k]
		}
		if n := h.normalize; n.on() {
			part = n.of(part, nil)
		}
		for i, c := range at {
			counted := h.weights[k] * float64(part[i])
			s := e.Candidates[c].Scores[h.extensions[k].Name]
			s.Counted = &counted
			e.Candidates[c].Scores[h.extensions[k].Name] = s
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// render returns the candidate for explain.
func (c *candTrace) render(h *traceHead) Candidate {
	out := Candidate{Endpoint: c.info.URL, State: c.state.String(), Reason: c.reason, Matched: map[string]int{},
		Columns: map[string]float32{}, Scores: map[string]Score{}, Total: 0 - c.total, EarlierBlocks: c.earlier}
	for t, n := range c.tiers {
		if n > 0 || t == 0 {
			out.Matched[TierNames[t]] = int(n)
		}
	}
	if c.state == candFiltered || h.chosen < 0 {
		return out
	}
	out.Columns = map[string]float32{
		"matched_tokens": c.matchedTokens(), "uncached_tokens": c.uncached, "outstanding_uncached_tokens": c.outstanding,
		"inflight": c.inflight, "kv_active_tokens": c.kvActive, "speed": c.speed,
		"running": float32(c.running), "waiting": float32(c.waiting),
		"decode_delay_tokens": c.delay, "kv_usage": c.kvUsage, "index_trust": c.trust, "lines": c.lines,
		"prefer_weight": c.prefer, "affinity_weight": h.affinity,
	}
	if c.others > 0 {
		out.Columns["others_inflight"] = c.others
	}
	if c.scraped != 0 {
		out.Columns["age_ms"] = float32(max(0, float64(h.at.UnixNano()-c.scraped)/1e6))
	}
	if h.source == sourceBuiltin {
		out.Scores[h.native.Name()] = Score{Score: c.parts[0], Terms: h.native.terms(c)}
		return out
	}
	for k := range h.scorers {
		u := &h.extensions[k]
		if h.faultOf(k) != "" {
			continue
		}
		s := Score{Score: c.parts[k], Terms: map[string]float32{}}
		if u.Digest == "builtin" && u.Name == h.native.Name() {
			s.Terms = h.native.terms(c)
		}
		out.Scores[u.Name] = s
	}
	return out
}

func (c *candTrace) matchedTokens() float32 {
	var sum uint32
	for _, n := range c.tiers {
		sum += n
	}
	return float32(sum)
}

// String returns one line for logs: chosen endpoint, kind, tokens.
func (e *Explanation) String() string {
	return e.Chosen + " " + e.Kind + " " + strconv.Itoa(e.PredictedCached) + "/" + strconv.Itoa(e.Tokens)
}
