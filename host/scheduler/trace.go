package scheduler

import (
	"math/bits"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
)

// traceShards rings spread decisions that end at the same time over several locks. A
// ring has room for at least traceShardEntries decisions and for the candidates of one
// decision over the largest fleet.
const (
	traceShards       = 8
	traceShardEntries = 512
	minTraceCands     = endpoint.MaxEndpoints
	candBytes         = int(unsafe.Sizeof(candTrace{}))
)

// traces are rings of decisions, by the hash of the request id: the decisions of all
// tenants about one id are in one ring.
type traces []traceRing

func newTraces(entries, bytes int) traces {
	n := max(1, min(traceShards, entries/traceShardEntries, bytes/(minTraceCands*candBytes)))
	t := make(traces, n)
	for i := range t {
		t[i].init(entries/n, bytes/n)
	}
	return t
}

// of returns the ring of the request ids that hash to a value.
func (t traces) of(hash uint64) *traceRing { return &t[hash%uint64(len(t))] }

// traceRing keeps the last decisions for Explain in bounded memory: a ring of heads and
// a ring of candidates. A decision whose candidates were overwritten is forgotten.
type traceRing struct {
	mu    sync.Mutex // guards the fields below
	heads []traceHead
	next  uint64 // heads ever written; number n is at heads[n % len], from 1
	cands []candTrace
	at    uint64 // candidates ever written
	limit int    // candidates that the byte bound allows

	more      []float32 // columns that only plugins read
	moreAt    uint64    // values ever written
	moreLimit int       // values that the byte bound allows
}

// maxTraceID is the number of bytes kept of a request id; a longer one is found by its
// first bytes and its hash.
const maxTraceID = 64

// traceHead is one decision without its candidates.
type traceHead struct {
	n      uint64 // number of the decision, 0 = empty
	hash   uint64
	id     [maxTraceID]byte
	idLen  uint8
	kind   Kind
	arm    arm
	known  knowledge
	done   bool
	source source
	op     llmapi.Operation

	tenant, model, objective string
	inexact, profile         string
	profileWhy               string
	weights                  []float64   // by scorer; nil = the sum was the score of the only one
	normalize                Normalize   // of the scores before they were added
	native                   *LeastWork  // recomputes the terms of the built-in
	extensions               []PluginUse // of an immutable profile
	scorers, filters         int         // number of each in extensions
	faults                   []extensionFault
	dec                      *policy.Decision // immutable; nil = none was made
	rules                    []string         // of dec
	namespace, revision      string
	rulesRevision            uint64
	at                       time.Time
	denied                   *DeniedError

	tokens, blockTokens int
	maxTokens, bytes    int
	session             uint64
	first, count        uint64 // candidates: numbers [first, first+count)
	held                ColumnSet
	adapter             string
	queued              time.Duration
	priority            float32
	capped              bool
	moreFirst           uint64 // columns of held: numbers [moreFirst, moreFirst+held×scored)
	scored              int    // candidates
	chosen              int32  // of these, -1 = none
	moves               moves
	expected            forecast
	affinity            float32
	retries             uint8
	predicted           uint32
	reported            int64 // -1 = not known
	status              int
	end                 exchange.End
	took                [stages]time.Duration
	ttft, e2e           time.Duration
}

// candTrace is one candidate of one decision.
type candTrace struct {
	info   *endpoint.Info
	reason string
	state  candState
	// earlier is endpoint.State.EarlierBlocks.
	earlier bool
	tiers   [MaxTiers]uint32

	uncached, outstanding, inflight, kvActive, speed, trust float32
	kvUsage, lines, total, rate, prefer, others, delay      float32

	parts [MaxScorers]float32 // by scorer; [0] is the built-in's score if it scored

	running, waiting uint32
	scraped          int64 // Unix nanoseconds, 0 = never
}

func (t *traceRing) init(entries, bytes int) {
	t.limit = max(minTraceCands, bytes/candBytes)
	t.moreLimit = max(1024, bytes/4/4)
	t.heads = make([]traceHead, entries)
}

// add records a decision that was placed.
func (t *traceRing) add(d *decision) traceRef {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.pushLocked(d)
	h.first, h.count = t.at, uint64(len(d.cands))
	for i := range d.cands {
		d.record(t.slotLocked(), i)
	}
	t.columnsLocked(h, &d.b)
	return traceRef{t, h.n}
}

// columnsLocked records the columns that only plugins read. They are left out if there
// is no room: the terms of plugins are then not part of explain.
func (t *traceRing) columnsLocked(h *traceHead, b *Batch) {
	n := uint64(b.N * bits.OnesCount64(uint64(b.held)))
	if h.held == 0 || n > uint64(t.moreLimit) {
		h.held = 0
		return
	}
	// In one piece, so that one copy reads it.
	if left := uint64(t.moreLimit) - t.moreAt%uint64(t.moreLimit); left < n {
		t.moreAt += left
	}
	h.moreFirst, h.scored = t.moreAt, b.N
	at := int(t.moreAt % uint64(t.moreLimit))
	if need := at + int(n); need > len(t.more) {
		t.more = slices.Grow(t.more, need-len(t.more))[:need]
	}
	for c := range b.More {
		if b.held.Has(Column(c)) {
			at += copy(t.more[at:], b.More[c])
		}
	}
	t.moreAt += n
}

// columnsOfLocked returns the columns of h that only plugins read, nil if they were
// overwritten.
func (t *traceRing) columnsOfLocked(h *traceHead) (out [abi.NumColumns][]float32) {
	if h.held == 0 || h.moreFirst+uint64(t.moreLimit) < t.moreAt {
		return out
	}
	at := int(h.moreFirst % uint64(t.moreLimit))
	for c := range out {
		if h.held.Has(Column(c)) {
			out[c] = slices.Clone(t.more[at : at+h.scored])
			at += h.scored
		}
	}
	return out
}

// addDenied records a refusal.
func (t *traceRing) addDenied(d *decision, err *DeniedError) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.pushLocked(d)
	h.denied = err
	h.first, h.count = t.at, uint64(len(d.cands))
	for i := range d.cands {
		d.record(t.slotLocked(), i)
	}
}

// pushLocked reuses the oldest head for d.
func (t *traceRing) pushLocked(d *decision) *traceHead {
	t.next++
	h := &t.heads[t.next%uint64(len(t.heads))]
	*h = traceHead{n: t.next}
	d.fillHead(h)
	return h
}

// slotLocked returns the oldest candidate for reuse; the ring grows up to its limit.
func (t *traceRing) slotLocked() *candTrace {
	if len(t.cands) < t.limit {
		t.cands = append(t.cands, candTrace{})
		t.at++
		return &t.cands[len(t.cands)-1]
	}
	c := &t.cands[t.at%uint64(len(t.cands))]
	t.at++
	return c
}

// fillHead records the decision without its candidates.
func (d *decision) fillHead(h *traceHead) {
	h.hash = d.seed
	h.idLen = uint8(copy(h.id[:], d.r.ID))
	h.at, h.rulesRevision = d.now, d.s.cfg.Revision
	if d.r.Principal != nil {
		h.tenant = d.r.Principal.Tenant
	}
	if d.model != nil {
		h.model = d.model.name
	}
	if d.dec != nil {
		h.dec = d.dec
		h.rules, h.namespace, h.revision = d.dec.Rules, d.dec.Namespace, d.dec.Revision
	}
	if d.want != 0 && d.chosen >= 0 {
		h.held = d.b.held
	}
	h.queued = d.r.Queued
	h.adapter, h.priority, h.capped = d.b.Adapter, d.b.Priority, d.b.Capped
	if d.prof != nil {
		h.objective, h.profile, h.native = string(d.prof.Objective), d.prof.Name, d.prof.native
		h.profileWhy = d.profWhy
		h.weights, h.normalize = d.prof.weights, d.prof.Normalize
		h.extensions, h.scorers, h.filters, h.source = d.prof.extensions, len(d.prof.Scorers), len(d.prof.Filters), d.source
		h.op, h.maxTokens, h.bytes, h.session = d.r.API.Op, d.maxTokens, len(d.r.API.Body), d.b.Session
	}
	if len(d.faults) > 0 {
		h.faults = slices.Clone(d.faults)
	}
	h.kind, h.arm, h.known, h.inexact = d.kind, d.arm, d.known, d.inexact
	h.tokens, h.took, h.reported, h.chosen, h.moves = d.tokens, d.took, -1, d.chosen, d.moves
	h.expected, h.affinity = d.expected, d.b.Affinity
	if d.chosen < 0 {
		return
	}
	c := &d.cands[d.chosen]
	if h.known == promptExact && d.contradicted(c) {
		h.known, h.inexact = promptEstimated, inexactParity
	}
	h.predicted = c.matched
	h.blockTokens = blockTokens(d.snap.BlockTokens[c.id])
}

// record records candidate i. It assigns field by field: a composite literal would be
// built elsewhere and copied.
func (d *decision) record(t *candTrace, i int) {
	c := &d.cands[i]
	t.info, t.reason, t.state, t.tiers = d.info(c), "", c.state, c.tiers
	t.earlier = d.snap.Earlier.Has(c.id)
	if c.why != reasonNone {
		t.reason = d.reasonText(c, i)
	}
	k := c.col
	if k < 0 {
		t.clearColumns()
		return
	}
	b, v := &d.b, d.snap
	t.uncached, t.outstanding, t.inflight = b.Uncached[k], b.Outstanding[k], b.Inflight[k]
	t.kvActive, t.speed, t.trust = b.KVActive[k], b.Speed[k], b.Trust[k]
	t.running, t.waiting, t.kvUsage, t.scraped = v.Running[c.id], v.Waiting[c.id], v.KVUsage[c.id], v.ScrapedAt[c.id]
	t.total, t.rate, t.prefer, t.lines = d.total[k], b.Rates[k], b.Prefer[k], 0
	t.others, t.delay = d.others(c.id), b.Delay[k]
	if t.parts[0] = b.Scores[k]; d.source == sourceProfile && !d.prof.direct {
		for s := range d.prof.Scorers {
			t.parts[s] = d.parts[s][k]
		}
	}
	if d.branch.group != nil {
		t.lines = d.groupCounts[k]
	}
}

// clearColumns clears the columns of a candidate that was not scored.
func (t *candTrace) clearColumns() {
	*t = candTrace{info: t.info, reason: t.reason, state: t.state, earlier: t.earlier, tiers: t.tiers}
}

// findLocked returns the head of a placement's decision, nil if it was overwritten.
func (t *traceRing) findLocked(n uint64) *traceHead {
	if h := &t.heads[n%uint64(len(t.heads))]; h.n == n && n != 0 {
		return h
	}
	return nil
}

// traceRef is the decision of a placement.
type traceRef struct {
	ring *traceRing
	n    uint64 // number of the decision
}

// retried records the endpoint of a retry.
func (r traceRef) retried(p *Placement) {
	t := r.ring
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.findLocked(r.n)
	if h == nil {
		return
	}
	h.retries++
	h.predicted = p.order[p.at].matched
	for i := range h.count {
		if !t.heldLocked(h) {
			return
		}
		if t.cands[(h.first+i)%uint64(len(t.cands))].info == p.order[p.at].info {
			h.chosen = int32(i)
		}
	}
}

// finished records the outcome of a request.
func (r traceRef) finished(p *Placement, o *exchange.Outcome) {
	t := r.ring
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.findLocked(r.n)
	if h == nil {
		return
	}
	h.done, h.status, h.end, h.ttft, h.e2e = true, o.Status, o.End, o.TTFT, o.E2E
	if o.HasCached {
		h.reported = int64(o.CachedTokens)
	}
}

// heldLocked reports whether all candidates of h are still in the ring.
func (t *traceRing) heldLocked(h *traceHead) bool {
	return h.first+uint64(len(t.cands)) >= t.at
}

// is reports whether h is a decision about a request id; hash is hashID of it.
func (h *traceHead) is(id string, hash uint64) bool {
	return h.n != 0 && h.hash == hash && string(h.id[:h.idLen]) == id[:min(len(id), maxTraceID)]
}

// tenants returns the tenants for which a decision about the request id is kept,
// sorted.
func (t *traceRing) tenants(id string, hash uint64) []string {
	var out []string
	t.mu.Lock()
	for i := range t.heads {
		if h := &t.heads[i]; h.is(id, hash) && t.heldLocked(h) && !slices.Contains(out, h.tenant) {
			out = append(out, h.tenant)
		}
	}
	t.mu.Unlock()
	slices.Sort(out)
	return out
}

// copyOut returns the newest decision about a tenant's request id. Clients choose
// request ids, so that two tenants may use the same one.
func (t *traceRing) copyOut(
	tenant, id string, hash uint64,
) (h traceHead, cands []candTrace, more [abi.NumColumns][]float32, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range uint64(len(t.heads)) {
		if i >= t.next {
			break
		}
		e := &t.heads[(t.next-i)%uint64(len(t.heads))]
		if e.is(id, hash) && e.tenant == tenant {
			return t.copyLocked(e)
		}
	}
	return h, nil, more, false
}

// copyLocked returns a decision of the ring, false if its candidates were overwritten.
func (t *traceRing) copyLocked(
	e *traceHead,
) (h traceHead, cands []candTrace, more [abi.NumColumns][]float32, ok bool) {
	if !t.heldLocked(e) {
		return h, nil, more, false
	}
	for k := range e.count {
		cands = append(cands, t.cands[(e.first+k)%uint64(len(t.cands))])
	}
	return *e, cands, t.columnsOfLocked(e), true
}

// copyOut returns the decision, false if it was overwritten.
func (r traceRef) copyOut() (h traceHead, cands []candTrace, more [abi.NumColumns][]float32, ok bool) {
	r.ring.mu.Lock()
	defer r.ring.mu.Unlock()
	e := r.ring.findLocked(r.n)
	if e == nil {
		return h, nil, more, false
	}
	return r.ring.copyLocked(e)
}
