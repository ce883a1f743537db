package elastic

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/replay"
	"github.com/kvasir-router/kvasir/host/replay/virtual"
)

// Load is the load of a run.
type Load struct {
	Conversations []replay.Conversation // by Start
	BlockTokens   int
	MaxThink      float64 // seconds; longer pauses are cut; 0 = as recorded
}

// Config is one run.
type Config struct {
	Load   Load
	Engine virtual.Engine // its blocks are those of the load
	Size   int            // engines at the start
	Cold   time.Duration  // from the order of an engine to its readiness
	// Scaling configures the autoscaler; nil = the size is fixed. Override, if set,
	// proposes instead of the built-in loop.
	Scaling  *autoscale.Config
	Override autoscale.Overrider

	MaxTTFT time.Duration // of a good request; default 2 s
	MaxTPOT time.Duration // of a good request, per token after the first; default 50 ms
}

// tickMs is the controller's period.
const tickMs = 5000

// start is the wall clock at virtual time 0.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type sim struct {
	cfg     Config
	now     float64 // ms
	events  events
	seq     int
	engines []*engine
	removed []*engine
	added   int        // engines ever, for their ids
	held    []*request // that arrived while no engine served
	answer  float64    // tokens of answers, smoothed

	work    float64 // ms of engine time offered since the last tick
	arrived int
	control *autoscale.Controller
	left    int // requests that are not answered

	report Report
}

// Run runs the load and returns the report.
func Run(cfg Config) (*Report, error) {
	if cfg.MaxTTFT == 0 {
		cfg.MaxTTFT = 2 * time.Second
	}
	if cfg.MaxTPOT == 0 {
		cfg.MaxTPOT = 50 * time.Millisecond
	}
	cfg.Engine.BlockTokens = cfg.Load.BlockTokens
	s := &sim{cfg: cfg, answer: 256}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	for range cfg.Size {
		s.add(0)
	}
	if cfg.Scaling != nil {
		if err := s.startControl(); err != nil {
			return nil, err
		}
	}
	s.loop()
	s.report.finish(s)
	return &s.report, nil
}

// prepare schedules the first request of each conversation.
func (s *sim) prepare() error {
	l := &s.cfg.Load
	if l.BlockTokens < 1 || len(l.Conversations) == 0 || s.cfg.Size < 1 {
		return fmt.Errorf("elastic: %d conversations, blocks of %d tokens, %d engines", len(l.Conversations), l.BlockTokens,
			s.cfg.Size)
	}
	for i := range l.Conversations {
		c := &l.Conversations[i]
		if len(c.Requests) == 0 {
			continue
		}
		if err := unique(c.Requests[len(c.Requests)-1].Blocks); err != nil {
			return fmt.Errorf("elastic: conversation %s: %w", c.Name, err)
		}
		s.left += len(c.Requests)
		s.arriveAt(c.Start*1000, i, 0)
	}
	return nil
}

// unique refuses a prompt that has a block twice: a block's name depends on all
// blocks before it.
func unique(blocks []uint64) error {
	seen := make(map[uint64]bool, len(blocks))
	for _, b := range blocks {
		if seen[b] {
			return fmt.Errorf("duplicate block %x in a prompt", b)
		}
		seen[b] = true
	}
	return nil
}

func (s *sim) arriveAt(at float64, conv, turn int) {
	q := &s.cfg.Load.Conversations[conv].Requests[turn]
	b := s.cfg.Load.BlockTokens
	r := &request{conv: conv, turn: turn, arrival: at, prompt: q.Tokens, output: max(1, q.Output), blocks: q.Blocks}
	if r.prompt == 0 {
		r.prompt = len(q.Blocks) * b
	}
	r.blocks = r.blocks[:min(len(r.blocks), r.prompt/b)]
	s.push(event{at: at, request: r})
}

// loop runs until every request is answered.
func (s *sim) loop() {
	next := float64(tickMs)
	for s.left > 0 && (s.events.Len() > 0 || s.control != nil) {
		if s.control != nil && (s.events.Len() == 0 || next <= s.events[0].at) {
			s.now = next
			s.tick()
			next += tickMs
			continue
		}
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		if e.request != nil {
			s.arrive(e.request)
			continue
		}
		for _, r := range e.engine.end(s.now) {
			s.answered(r)
		}
		s.begin(e.engine)
	}
}

func (s *sim) arrive(r *request) {
	s.arrived++
	e := s.place(r)
	if e == nil {
		s.held = append(s.held, r)
		return
	}
	r.estimate = r.prompt - e.match(r)
	r.weight = r.prompt + int(s.answer)
	s.work += prefillMs(e.spec, r.estimate, r.prompt-r.estimate) + answerMs(e.spec, s.answer, r.prompt)
	e.place(r)
	if !e.busy {
		s.begin(e)
	}
}

func (s *sim) begin(e *engine) {
	if ms, ok := e.step(); ok {
		s.push(event{at: s.now + ms, engine: e})
	}
}

func (s *sim) answered(r *request) {
	s.left--
	s.answer = 0.98*s.answer + 0.02*float64(r.output)
	s.report.add(s, r)
	c := &s.cfg.Load.Conversations[r.conv]
	if r.turn+1 == len(c.Requests) {
		return
	}
	think := c.Requests[r.turn+1].Think
	if most := s.cfg.Load.MaxThink; most > 0 {
		think = min(think, most)
	}
	s.arriveAt(s.now+1000*think, r.conv, r.turn+1)
}

func (s *sim) tick() {
	held := s.held
	s.held = nil
	for _, r := range held {
		s.arrive(r)
		s.arrived--
	}
	sig := autoscale.Signal{Now: s.wall(), Work: s.work / 1000, Requests: s.arrived, InFlight: len(s.held)}
	s.work, s.arrived = 0, 0
	n := 0
	for _, e := range s.engines {
		sig.InFlight += e.inflight
		sig.Backlog += e.spec.Timing.A * float64(e.prefill) / 1000
		if e.up <= s.now {
			n++
			sig.KVUsage += float64(e.active) / float64(e.spec.CacheTokens)
		}
	}
	if n > 0 {
		sig.KVUsage /= float64(n)
	}
	s.control.Tick(context.Background(), sig)
	s.report.tick(s, n)
}

func (s *sim) wall() time.Time { return start.Add(time.Duration(s.now * float64(time.Millisecond))) }

// event is an arrival (request set) or the end of an engine's step.
type event struct {
	at      float64
	seq     int
	request *request
	engine  *engine
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	o := *q
	x := o[len(o)-1]
	*q = o[:len(o)-1]
	return x
}

func (s *sim) push(e event) {
	s.seq++
	e.seq = s.seq
	heap.Push(&s.events, e)
}
