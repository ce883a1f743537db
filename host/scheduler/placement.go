package scheduler

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/quota"
)

// Target is where a placement's request goes. It is valid until the next call of
// Next or Done.
type Target struct {
	exchange.Target
	Endpoint endpoint.ID
	Epoch    uint32 // of the slot
	Pool     string
}

// health returns what an outcome says about the endpoint.
func health(o *exchange.Outcome) endpoint.Result {
	switch o.End.Fault() {
	case exchange.FaultStatus:
		return endpoint.ResultOf(o.Status)
	case exchange.FaultEngine:
		return endpoint.ResultFailed
	}
	return endpoint.ResultNeutral
}

// Failed reports whether the endpoint was at fault.
func Failed(o *exchange.Outcome) bool { return health(o) == endpoint.ResultFailed }

// choice is one endpoint of a placement's order.
type choice struct {
	id        endpoint.ID
	epoch     uint32 // of the slot
	class     int8
	events    endpoint.EventMode
	matched   uint32 // predicted cached tokens
	uncached  int64
	info      *endpoint.Info
	load      *endpoint.Load
	pool      *poolUse
	needsSalt bool // the engine must honour the salt
}

// phase is how far a placement is. It only advances, until its memory is reused.
type phase uint8

const (
	phaseIdle    phase = iota // no request's
	phasePrefill              // the first token is awaited: work and prompt are held
	phaseAnswer               // the prefill is over, or the request has ended without an answer
	numPhases
)

var phaseNames = [numPhases]string{phaseIdle: "idle", phasePrefill: "prefill", phaseAnswer: "answer"}

// String returns the name, for debugging.
func (f phase) String() string { return phaseNames[f] }

// Placement is one placed request. Its owner calls Target, then any number of
// Next, at most one FirstToken, and exactly one Done, which must be the last call:
// the memory is reused. The calls may come from different goroutines, but not at
// once.
type Placement struct {
	st    *State
	order [keepOrder]choice // by preference; the first is the decision
	n, at int

	target   Target
	streamed bool
	priority int    // of policy; higher = sooner
	scope    string // who shares the prompt's cache: policy.ScopePublic and others
	demands  []policy.Constraint
	phase    phase
	knows    knowledge // of the prompt

	textTokens, mediaTokens int // of a prompt that is not exact
	op                      llmapi.Operation
	asked                   string // the model as the client wrote it; valid until the first token
	model                   string
	known                   *modelState // of model
	lane                    lane        // of model
	tenant                  string
	session                 uint64 // key of the client's session, 0 = none
	user                    string // who may continue the answer, "" = every user of the tenant
	kind                    Kind
	tokens                  int
	kv                      int64
	charge                  endpoint.Charge
	charged                 time.Time
	failed                  *endpoint.Load // of the endpoint that answered 500 and was left for it; nil = none
	expected                forecast       // of the decision; zero after a retry
	grant                   quota.Grant
	branch                  branchPoint
	trace                   traceRef

	several bool // more than one answer is asked for
	claim   cacheClaim

	seq        uint64 // number among the placements; set by waitingLists.push
	prev, next *Placement

	mu     sync.Mutex // guards the fields below against State.Refresh
	live   uint64     // seq while the prompt is held
	prompt *promptMem // until the first token
}

// getPlacement returns an empty placement. It ends with recycle.
func (st *State) getPlacement() *Placement {
	if p, _ := st.places.Get().(*Placement); p != nil {
		return p
	}
	return &Placement{st: st}
}

// rewrite sets what is the same for every target of the placement.
func (p *Placement) rewrite(d *decision) {
	p.target.Rewrite = llmapi.Rewrite{Salt: d.salt, MaxTokens: d.dec.MaxOutputTokens}
	p.demands = d.dec.Constraints
	p.streamed, p.priority, p.scope, p.several = d.r.API.Stream, d.dec.Priority, d.dec.Scope, d.r.API.N > 1
}

// aim makes choice i, which charge is of, the target.
func (p *Placement) aim(i int, charge endpoint.Charge, now time.Time) {
	p.at = i
	c := &p.order[i]
	p.charge, p.charged = charge, now
	t := &p.target
	t.Endpoint, t.Epoch, t.Addr, t.Host, t.Pool = c.id, c.epoch, c.info.Addr, c.info.Addr, c.pool.Name
	t.TLS = nil
	if scheme, rest, ok := strings.Cut(c.info.URL, "://"); ok {
		t.Host, _, _ = strings.Cut(rest, "/")
		if scheme == "https" {
			t.TLS = c.pool.TLS
		}
	}
	t.Authorization, t.Timeouts = c.pool.Authorization, c.pool.Timeouts
	rw := &t.Rewrite
	rw.Model, rw.Dialect = "", c.info.Dialect
	rw.UnknownFields, rw.InternalFields = c.pool.UnknownFields, c.pool.InternalFields
	if c.pool.served != p.asked {
		rw.Model = c.pool.served
	}
	rw.SetSalt = rw.Salt != "" && !c.pool.NoSalt && llmapi.SaltField(p.op, rw.Dialect) != ""
	if !rw.SetSalt && p.op.HasPrompt() {
		p.st.stats.unsalted[p.whyUnsalted(c.pool)].Add(1)
	}
	rw.Priority = 0
	if c.pool.Priority {
		rw.Priority = p.priority
	}
	rw.ForceUsage = p.streamed
}

// whyUnsalted returns why a request to pool is sent without a salt.
func (p *Placement) whyUnsalted(pool *poolUse) int {
	switch {
	case p.target.Rewrite.Salt == "" && p.scope == policy.ScopePublic:
		return unsaltedPublic
	case p.target.Rewrite.Salt != "" && pool.Dedicated:
		return unsaltedDedicated
	}
	return unsaltedFault
}

// start lists the placement as waiting for its first token and predicts its chain, so
// that requests with the same prefix find it.
func (p *Placement) start() {
	p.st.waiting.push(p)
	p.mu.Lock()
	p.claimCached()
	p.live = p.seq
	p.predict()
	p.mu.Unlock()
}

// chain returns the chain of the target's block size, nil if it is not known.
func (p *Placement) chain() []uint64 {
	c := &p.order[p.at]
	if p.prompt == nil || p.knows == promptEstimated || c.class < 0 {
		return nil
	}
	return p.prompt.p.Chains[c.class]
}

// predict tells the predictor that the target will hold the chain. p.mu is held.
func (p *Placement) predict() {
	loc := &p.st.loc
	if chain := p.chain(); loc.Predictor != nil && len(chain) > 0 {
		loc.Predictor.Add(loc.HolderOf(p.order[p.at].id, 0), chain)
	}
}

// Target returns where to send the request.
func (p *Placement) Target() *Target { return &p.target }

// Kind returns what kind of decision placed the request.
func (p *Placement) Kind() Kind { return p.kind }

// PredictedCached returns the prompt tokens that the target is expected to reuse.
func (p *Placement) PredictedCached() int { return int(p.order[p.at].matched) }

// Next moves the request to the next endpoint, after the target could not be
// reached or lost the connection before it answered. It returns false, and changes
// nothing, if no other endpoint can take the request.
func (p *Placement) Next() bool { return p.NextAfter(0) }

// NextAfter is Next after an answer with the given status, which the client does not
// get.
func (p *Placement) NextAfter(status int) bool {
	st := p.st
	now := st.now()
	st.store.Report(p.order[p.at].load, endpoint.ResultOf(status), now)
	snap := st.store.Load()
	may := st.masks.get(snap, p.demands)
	from := p.at
	to := from + 1
	p.lane.lock()
	for to < p.n && !(may.Has(p.order[to].id) && p.order[to].fit(snap, p.op, now)) {
		to++
	}
	if to >= p.n {
		p.lane.unlock()
		return false
	}
	p.charge.Release()
	charge := p.order[to].load.Charge(p.tenant, p.order[to].uncached, p.kv)
	p.order[to].load.Waits(now)
	p.lane.unlock()
	a, b := &p.order[from], &p.order[to]
	if status == http.StatusInternalServerError {
		p.failed = a.load
	}
	p.known.conversations.move(&p.branch, a.id, a.epoch, b.id, b.epoch)
	p.mu.Lock()
	p.aim(to, charge, now)
	p.expected = forecast{}
	p.claimCached()
	p.predict()
	p.mu.Unlock()
	st.stats.retries.Add(1)
	p.trace.retried(p)
	return true
}

// fit reports whether a choice can still take the request: its endpoint may have
// changed since the decision.
func (c *choice) fit(snap *endpoint.Snapshot, op llmapi.Operation, now time.Time) bool {
	if !snap.Current(c.id, c.epoch) || !snap.Ready.Has(c.id) || c.needsSalt && snap.NoSalt[c.id]&(1<<op) != 0 {
		return false
	}
	if c.pool.MaxInflight > 0 && c.load.Inflight() >= int64(c.pool.MaxInflight) {
		return false
	}
	return c.load.Admit(now)
}

// FirstToken reports that the prefill is over: the first output token, or the head of
// an answer that is not streamed, has arrived.
func (p *Placement) FirstToken() {
	if p.phase != phasePrefill {
		return
	}
	c := &p.order[p.at]
	now := p.st.now()
	c.load.ObservePrefill(c.uncached, now.Sub(p.charged))
	c.load.Worked(p.tenant, c.uncached, now)
	c.load.Progressed(now)
	p.st.stats.ttft.add(p.expected.ttft, now.Sub(p.charged))
	p.known.work.add(float64(c.uncached))
	p.guardTTFT(now.Sub(p.charged))
	p.computed()
	p.settle()
}

// computed records that the target holds the chain.
func (p *Placement) computed() {
	c := &p.order[p.at]
	if !p.st.store.Load().Current(c.id, c.epoch) {
		return
	}
	p.mu.Lock()
	p.predict()
	if loc := &p.st.loc; loc.Assumed != nil && c.events != endpoint.EventsLive {
		if chain := p.chain(); len(chain) > 0 {
			loc.Assumed.Touch(loc.HolderOf(c.id, 0), chain)
		}
	}
	p.mu.Unlock()
}

// settle releases the outstanding work and the prompt's memory.
func (p *Placement) settle() {
	p.phase = phaseAnswer
	p.charge.ReleaseWork()
	p.st.waiting.remove(p)
	p.mu.Lock()
	m := p.prompt
	p.prompt, p.live = nil, 0
	p.mu.Unlock()
	p.asked = ""
	if m != nil {
		p.st.putPrompt(m)
	}
}

// Done ends the placement with its outcome.
func (p *Placement) Done(o exchange.Outcome) {
	st := p.st
	now := st.now()
	c := &p.order[p.at]
	if p.phase == phasePrefill {
		if o.Succeeded() {
			p.computed()
		} else {
			c.load.GaveUp(now)
		}
		p.settle()
	}
	p.charge.Release()
	p.settleQuota(&o)
	if o.Succeeded() {
		c.load.Progressed(now)
	}
	if p.streamed && o.HasUsage && o.TTFT > 0 {
		c.load.ObserveDecode(o.OutputTokens, o.E2E-o.TTFT)
	}
	p.reportHealth(c.load, &o, now)
	st.stats.finished(p, &o)
	p.trace.finished(p, &o)
	excess := p.unexplained(&o)
	if st.cfg.Observer != nil {
		st.cfg.Observer.Observe(&Observation{
			Endpoint: c.id, Epoch: c.epoch, Pool: c.pool.Name, Model: p.model, Tenant: p.tenant,
			Kind: p.kind, PromptTokens: p.promptTokens(), PredictedCached: int(c.matched), Streamed: p.streamed,
			Unexplained: excess, EarlierBlocks: st.store.Load().Earlier.Has(c.id), Outcome: o,
		})
	}
	p.recycle()
}

// reportHealth passes what the outcome says about the endpoint's health on. If it is the
// second endpoint that answers 500, the prompt is at fault and neither of them.
func (p *Placement) reportHealth(load *endpoint.Load, o *exchange.Outcome, now time.Time) {
	st, result := p.st, health(o)
	if p.failed != nil && o.End == exchange.EndComplete && o.Status == http.StatusInternalServerError {
		st.store.Retract(p.failed, now)
		result = endpoint.ResultNeutral
		st.stats.repeated.Add(1)
	}
	st.store.Report(load, result, now)
}

// promptTokens returns the prompt's tokens, 0 if they are an estimate or the engine
// counts others.
func (p *Placement) promptTokens() int {
	if c := &p.order[p.at]; p.knows != promptExact || p.known.parity.has(c.id, c.epoch) {
		return 0
	}
	return p.tokens
}

// recycle returns the placement to the pool, without references.
func (p *Placement) recycle() {
	clear(p.order[:p.n])
	p.target, p.demands = Target{}, nil
	p.n, p.at, p.phase, p.knows, p.scope, p.claim, p.failed = 0, 0, phaseIdle, promptEstimated, "", cacheClaim{}, nil
	p.model, p.known, p.lane, p.tenant, p.user, p.branch, p.trace = "", nil, nil, "", "", branchPoint{}, traceRef{}
	p.st.places.Put(p)
}
