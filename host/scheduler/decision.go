package scheduler

import (
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/quota"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// Kind is what kind of placement a decision was.
type Kind uint8

const (
	KindWarm     Kind = iota // where the longest match is
	KindSpill                // elsewhere, although a match was known
	KindCold                 // nobody held a block
	KindFallback             // the prompt is not known; by session or load
	KindHoldout              // control arm: least work without locality
	kinds
)

// String returns the word used in metrics and explain.
func (k Kind) String() string {
	return [...]string{"warm", "spill", "cold", "fallback", "holdout"}[k]
}

// Stages of a decision, timed one by one.
const (
	stagePolicy = iota
	stagePrompt
	stageLookup
	stagePlace
	stages
)

// StageNames are the names of the stages in Stats and explain.
var StageNames = [stages]string{"policy", "prompt", "lookup", "place"}

// decision is one decision under way and its scratch memory, reused from
// request to request.
type decision struct {
	s      *Scheduler
	r      *Request
	charge bool // false in a dry run

	in     policy.Input
	model  *model
	dec    *policy.Decision
	prof   *profile
	snap   *endpoint.Snapshot
	now    time.Time
	lapped time.Time
	took   [stages]time.Duration
	seed   uint64
	grant  quota.Grant
	salt   string // of the namespace, or of this request alone
	alone  bool   // the cache scope is none: the request shares with no one

	prompt    *promptMem
	exact     bool
	adapter   string    // LoRA adapter asked for, as the engines call it, "" = none
	want      ColumnSet // columns that are filled for the profile's cast
	tokens    int       // prompt tokens, estimated if not exact
	maxTokens int       // output tokens asked for, 0 = unknown
	why       string
	holdout   bool

	cands   []cand // endpoints of the model's pools, filtered ones too
	order   []int32
	b       Batch
	parts   [MaxScorers][]float32 // [N] scores of each scorer, unless the profile is direct
	heard   [MaxScorers][]float32 // scores of each scorer that was heard, for Profile.Decided
	sums    []float64             // [N] of the parts
	norm    []float32             // [N] one part, normalized
	drop    []uint32              // [N] a filter's verdicts
	mask    []uint32              // [N] a picker's choice
	picked  []uint32              // columns in a picker's order, nil = there is none
	pickMem [keepOrder]uint32     // memory of picked
	dropped []string              // [cands] why a filter dropped them; nil = none did
	faults  []useFault            // who was not heard, and why
	unit    Unit                  // of the scores
	builtin bool                  // they are the built-in's, instead of the profile's scorers'
	loads   []*endpoint.Load
	total   []float32 // [N] cost the pick went by
	lines   []float32 // [N] lines of the request's group begun there
	allLine []float32 // [N] lines of the model begun there
	over    []reason  // [N] why the envelope passes it over, reasonNone = it does not
	joins   []bool    // [N] wanted as a further holder of a shared prefix
	depth   []uint32  // [holders]
	lift    []uint32  // [holders]
	spare   []uint32  // [holders]
	holders []uint64

	live    loads // of the candidates; when the choice is made, those of that moment
	liveMem loads // memory of live where a scorer keeps what it saw
	deep    int   // column with the longest match, -1 = nobody has one
	branch  branchPoint
	kind    Kind
	chosen  int32 // index in cands, -1 = none
	column  int   // of chosen
	kv      int64 // KV tokens that are charged
	charged endpoint.Charge
}

// cand is one endpoint of the model's pools in one decision. It is kept small:
// a decision writes one for each endpoint.
type cand struct {
	load     *endpoint.Load
	id       endpoint.ID
	col      int32  // column in the batch, -1 = filtered
	matched  uint32 // tokens in any tier, as the engine would reuse them
	tiers    [MaxTiers]uint32
	uncached float32 // weighted by tier and trust
	class    int8    // index of its block size in the query, -1 = no chain
	state    candState
	why      reason
	pool     uint8 // index in model.pools
}

// info returns who the candidate is.
func (d *decision) info(c *cand) *endpoint.Info { return d.snap.Infos[c.id] }

// reason is why a candidate was filtered or passed over.
type reason uint8

const (
	reasonNone reason = iota
	reasonTenant
	reasonConstraint
	reasonSalt
	reasonState
	reasonModel
	reasonReady // the snapshot has the words
	reasonContext
	reasonCordoned
	reasonBreaker
	reasonCap
	reasonLoad
	reasonShare
	reasonRamp
	reasonProbe
	reasonFilter // d.dropped has the words
)

var reasonWords = [...]string{"", "kept for another tenant", "policy constraint", "no cache isolation for this operation", "does not keep the response to continue", "model not served", "not ready", "context too long", "cordoned: takes no conversations it does not know", "breaker open",
	"at its cap of requests", "load above the envelope", "one tenant holds most of its work", "slow start", "probe under way", "dropped by a filter"}

// words returns the reason of a candidate for explain.
func (d *decision) words(c *cand, i int) string {
	switch c.why {
	case reasonReady:
		return d.snap.Reasons[c.id]
	case reasonFilter:
		return d.dropped[i]
	}
	return reasonWords[c.why]
}

type candState uint8

const (
	candKept candState = iota
	candFiltered
	candEnveloped
)

// String returns explain's word.
func (c candState) String() string { return [...]string{"kept", "filtered", "enveloped"}[c] }

func (st *State) getDecision() *decision {
	if d, _ := st.scratch.Get().(*decision); d != nil {
		return d
	}
	return new(decision)
}

// putDecision gives the scratch back, without what it referred to.
func (st *State) putDecision(d *decision) {
	if d.prompt != nil {
		st.putPrompt(d.prompt)
	}
	clear(d.cands)
	clear(d.loads)
	if d.prof != nil && !d.prof.builtin {
		clear(d.b.Infos)
	}
	clear(d.faults[:cap(d.faults)])
	d.s, d.r, d.model, d.dec, d.prof, d.snap, d.prompt = nil, nil, nil, nil, nil, nil, nil
	d.in, d.branch, d.grant = policy.Input{}, branchPoint{}, quota.Grant{}
	d.salt = ""
	st.scratch.Put(d)
}

func (st *State) getPrompt() *promptMem {
	if m, _ := st.prompts.Get().(*promptMem); m != nil {
		m.p.Reset()
		return m
	}
	return new(promptMem)
}

func (st *State) putPrompt(m *promptMem) {
	m.q = tokenizer.Query{}
	st.prompts.Put(m)
}

func (d *decision) begin(s *Scheduler, r *Request, charge bool) {
	d.s, d.r, d.charge = s, r, charge
	d.now = s.st.now()
	d.lapped = d.now
	d.took = [stages]time.Duration{}
	d.cands = d.cands[:0]
	d.b.N = 0
	d.exact, d.tokens, d.maxTokens, d.why, d.holdout = false, 0, 0, "", false
	d.adapter, d.want = "", 0
	d.kind, d.chosen = KindCold, -1
	d.faults, d.dropped, d.picked, d.builtin = d.faults[:0], d.dropped[:0], nil, false
	d.seed = s.st.hashID(r.ID)
}

// lap ends a stage.
func (d *decision) lap(stage int) {
	t := d.s.st.now()
	d.took[stage] = t.Sub(d.lapped)
	d.lapped = t
}

// run decides. Its error is final.
func (d *decision) run() *DeniedError {
	if err := d.decide(); err != nil {
		return err
	}
	if err := d.admit(); err != nil {
		return err
	}
	d.lap(stagePolicy)
	d.snap = d.s.st.store.Load()
	if err := d.narrow(); err != nil {
		return err
	}
	if err := d.readPrompt(); err != nil {
		return err
	}
	if err := d.reserve(); err != nil {
		return err
	}
	if d.exact {
		d.lap(stagePrompt)
	}
	d.lookup()
	if !d.snap.Cordoned.Empty() {
		d.filterCordoned()
	}
	if d.exact {
		d.lap(stageLookup)
	}
	return d.place()
}

// decide resolves the model and asks policy.
func (d *decision) decide() *DeniedError {
	r, s := d.r, d.s
	d.model = s.models[r.API.Model]
	if d.model == nil {
		return errModel(shorten(r.API.Model))
	}
	d.in = policy.Input{Principal: r.Principal, Operation: r.API.Op.String(), Model: d.model.name, Stream: r.API.Stream,
		Priority: r.Priority, SizeClass: sizeClass(len(r.API.Body)), Labels: inputLabels(r), Trace: &r.Trace}
	s.place(&d.in, d.now)
	dec, err := s.cfg.Policy.Decide(&d.in)
	r.Asked, r.Decision = d.in, dec
	if err != nil || dec == nil {
		return errPolicy()
	}
	d.dec = dec
	if !dec.Allow {
		status := dec.Status
		if status < 400 {
			status = http.StatusForbidden
		}
		return &DeniedError{Status: status, Code: llmapi.CodePolicyDenied, Message: "denied by policy: " + dec.Reason}
	}
	if dec.Model != "" && dec.Model != d.model.name {
		if d.model = s.models[dec.Model]; d.model == nil {
			return errPolicy()
		}
	}
	if d.prof = s.profiles[dec.Profile]; d.prof == nil {
		return errPolicy()
	}
	d.salt, d.alone = dec.Salt, dec.Scope == policy.ScopeNone
	if d.alone {
		d.salt = policy.RandomSalt()
	}
	d.holdout = d.charge && !dec.Affinity.Sticky && d.s.st.holdout(d.prof.Holdout)
	return nil
}

// holdout reports whether the next request belongs to the control arm. The
// sample is stratified: of each 1/share requests one, at a random place, so that
// no short stretch of traffic has many of them and what locality gains there is
// not drowned.
func (s *State) holdout(share float64) bool {
	if share <= 0 {
		return false
	}
	n := s.sampled.Add(1) - 1
	period := uint64(math.Round(1 / share))
	if period <= 1 {
		return share >= 1 || float64(mix(s.cfg.Seed^n)>>11)/(1<<53) < share
	}
	return mix(s.cfg.Seed^(n/period))%period == n%period
}

// shorten bounds a client's text in an error.
func shorten(s string) string {
	if len(s) > 128 {
		return s[:128] + "…"
	}
	return s
}

// readPrompt works out tokens and chains and applies the limits that need them.
func (d *decision) readPrompt() *DeniedError {
	api := d.r.API
	d.maxTokens = api.MaxTokens
	if limit := d.dec.MaxOutputTokens; limit > 0 && (d.maxTokens == 0 || d.maxTokens > limit) {
		d.maxTokens = limit
	}
	switch {
	case !api.Op.HasPrompt():
		d.why = "the operation has no prompt"
		d.tokens = 1
		return nil
	case d.model.prompter == nil:
		d.why = "the model has no tokenizer"
	default:
		d.render()
	}
	if !d.exact {
		d.tokens = 1 + len(api.Body)/bytesPerToken
		return d.textTooLong()
	}
	if limit := d.dec.MaxPromptTokens; limit > 0 && d.tokens > limit {
		return errTooLong(d.tokens, limit, api.Op.PromptParam())
	}
	d.filterContext()
	return nil
}

// textTooLong applies the limit of prompts to one that is not known to the token:
// else whoever makes his so, by an image or two prompts in one request, has none.
func (d *decision) textTooLong() *DeniedError {
	c, ok := d.model.prompter.(TextCounter)
	limit := d.dec.MaxPromptTokens
	if !ok || limit <= 0 {
		return nil
	}
	if n := c.AtLeast(d.r.API, limit); n > limit {
		return tooLong("at least ", n, limit, d.r.API.Op.PromptParam())
	}
	return nil
}

// render asks for the prompt in every block size of the candidates.
func (d *decision) render() {
	m := d.s.st.getPrompt()
	d.prompt = m
	n := d.classes(&m.sizes)
	m.q = tokenizer.Query{Adapter: d.adapter, Salt: d.salt, Private: d.alone, Sizes: m.sizes[:n]}
	if err := d.model.prompter.Blocks(d.r.API, &m.q, &m.p); err != nil {
		d.why = "the prompt cannot be rendered"
		return
	}
	if d.alone { // whatever the prompter told: nothing is looked up or predicted
		for i := range m.p.Chains {
			m.p.Chains[i] = m.p.Chains[i][:0]
		}
	}
	d.exact, d.tokens, d.why = m.p.Exact && m.p.Tokens > 0, m.p.Tokens, m.p.Reason
}

// classes collects the distinct block sizes of the candidates and gives each
// candidate the index of its own. Beyond the fourth size candidates have no
// chain and no match.
func (d *decision) classes(sizes *[tokenizer.MaxSizes]int) int {
	n := 0
	for i := range d.cands {
		c := &d.cands[i]
		if c.state != candKept {
			continue
		}
		size := blockTokens(d.snap.BlockTokens[c.id])
		at := slices.Index(sizes[:n], size)
		if at < 0 && n < len(sizes) {
			sizes[n] = size
			at = n
			n++
		}
		c.class = int8(at)
	}
	return n
}
