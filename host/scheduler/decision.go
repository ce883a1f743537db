package scheduler

import (
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

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

// decision is one decision under way and its scratch memory, reused from request
// to request. Each part is written by one step and read by those after it.
type decision struct {
	s    *Scheduler
	r    *Request
	mode mode
	seed uint64 // keyed hash of the request id

	stopwatch   // the stages' times
	ruling      // decide, admit
	snap        *endpoint.Snapshot
	cands       []cand // narrow, lookup: endpoints of the model's pools, filtered ones too
	promptFacts        // readPrompt
	depths             // lookup: scratch memory
	rating             // gather, callExtensions: the candidates in columns and their scores
	selection          // choose
}

// stopwatch times the stages of a decision.
type stopwatch struct {
	now   time.Time // of the decision
	begun time.Time // of the stage
	took  [stages]time.Duration
}

// depths is scratch memory of lookup.
type depths struct {
	depth   []uint32 // [holders]
	assumed []uint32 // [holders]
	spare   []uint32 // [holders]
	holders []uint64 // bitset
}

// rating is the remaining candidates in columns, and the results of the profile's
// extensions.
type rating struct {
	b     Batch
	order []int32          // [N] index in cands
	loads []*endpoint.Load // [N]
	want  ColumnSet        // columns that are filled for the profile's extensions

	meanRate             float32 // mean of the learned prefill rates, for columns of Batch.More
	meanWork, meanAnswer float32 // tokens of the model's prompts to compute, and of its answers

	home int // candidate that the session was placed on last, -1 = none; likewise

	parts    [MaxScorers][]float32 // [N] scores of each scorer, unless the profile is direct
	accepted [MaxScorers][]float32 // scores of each scorer that counts, for Profile.Decided
	sums     []float64             // [N] of the parts
	norm     []float32             // [N] one part, normalized
	drop     []uint32              // [N] a filter's verdicts
	mask     []uint32              // [N] a picker's choice
	picked   []uint32              // columns in the picker's order, nil = it gave none
	pickMem  [keepOrder]uint32     // memory of picked
	dropped  []string              // [cands] why a filter dropped each; nil = none was dropped
	faults   []extensionFault
	unit     Unit // of the scores
	source   source
}

// selection is the choice and what it is made by.
type selection struct {
	live    loadColumns // loads of the candidates: as gathered, then as read with the lane locked
	liveMem loadColumns // memory of live where the batch keeps the loads that extensions saw

	total       []float32 // [N] cost that the pick compares
	groupCounts []float32 // [N] conversations of the request's prefix begun there
	modelCounts []float32 // [N] conversations of the model begun there
	over        []reason  // [N] why the candidate is passed over, reasonNone = it is not
	joins       []bool    // [N] may become a further holder of the shared prefix
	moves       moves

	deep   int // column with the longest match, -1 = none has one
	branch branchPoint
	kind   Kind
	chosen int32 // index in cands, -1 = none
	column int   // of chosen
	kv     int64 // KV tokens that are charged
	charge endpoint.Charge

	expected forecast // on chosen
}

func (st *State) getDecision() *decision {
	if d, _ := st.scratch.Get().(*decision); d != nil {
		return d
	}
	return new(decision)
}

// putDecision returns the scratch to the pool, without references.
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
	d.s, d.r, d.snap = nil, nil, nil
	d.ruling, d.promptFacts = ruling{}, promptFacts{}
	d.branch, d.charge = branchPoint{}, endpoint.Charge{}
	st.scratch.Put(d)
}

// begin prepares the scratch for a request. The endpoints may be of another edition
// than the rules (current).
func (d *decision) begin(s *Scheduler, r *Request, m mode) {
	d.s, d.r, d.mode, d.seed = s, r, m, s.st.hashID(r.ID)
	d.snap = s.st.store.Load()
	now := s.st.now()
	d.stopwatch = stopwatch{now: now, begun: now}
	d.cands, d.b.N = d.cands[:0], 0
	d.want, d.source = 0, sourceProfile
	d.faults, d.dropped, d.picked = d.faults[:0], d.dropped[:0], nil
	d.kind, d.chosen, d.moves.n, d.expected = KindUnset, -1, 0, forecast{}
}

// current reports whether the endpoints are of the edition that the rules are made for.
func (d *decision) current() bool { return d.snap.Edition == d.s.cfg.Edition }

// endStage records the time since the previous stage ended.
func (d *decision) endStage(stage int) {
	t := d.s.st.now()
	d.took[stage] = t.Sub(d.begun)
	d.begun = t
}

// run makes the decision. Its error is what the client gets.
func (d *decision) run() *DeniedError {
	if err := d.decide(); err != nil {
		return err
	}
	if err := d.admit(); err != nil {
		return err
	}
	d.endStage(stagePolicy)
	if later := d.s.st.store.Load(); later.Edition == d.snap.Edition {
		d.snap = later // a policy may take long to evaluate
	}
	if err := d.narrow(); err != nil {
		return err
	}
	if err := d.readPrompt(); err != nil {
		return err
	}
	if err := d.reserve(); err != nil {
		return err
	}
	if d.known == promptExact {
		d.endStage(stagePrompt)
	}
	d.lookup()
	if !d.snap.Cordoned.Empty() {
		d.filterCordoned()
	}
	if d.known == promptExact {
		d.endStage(stageLookup)
	}
	return d.place()
}
