package virtual

import (
	"errors"
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/replay"
	"github.com/kvasir-router/kvasir/host/simengine"
)

// Config is one run.
type Config struct {
	Engines []Engine      // required; all with the trace's block size
	Trace   *replay.Trace // required
	Router  Router        // required
	// Foreign are requests that do not come through the router.
	Foreign []Foreign
	Changes []Change

	MaxThink time.Duration // longer pauses of clients are cut; 0 = as recorded
	Scrape   time.Duration // period of scrapes; 0 = 1 s, the product's
	// Progress is called about a hundred times with the requests that are answered. May
	// be nil.
	Progress func(done, total int)
}

// Foreign is a request that another router or client sends to an engine.
type Foreign struct {
	At             time.Duration
	Engine         int // index in Config.Engines
	Prompt, Output int // tokens; the prompt is shared with no other
}

// Change changes the timing of an engine.
type Change struct {
	At     time.Duration
	Engine int // index in Config.Engines
	Timing simengine.Timing
}

// Sample is what came of one request. Times are in seconds.
type Sample struct {
	Arrival   float64
	TTFT, E2E float32
	TPOT      float32 // mean time between output tokens, 0 with one token
	Prompt    int32   // tokens, as all below
	Cached    int32   // reused by the engine
	Predicted int32   // expected to be reused by the router
	Output    int32
	Engine    int32 // index
}

// Result is the outcome of a run.
type Result struct {
	Samples []Sample // in order of completion, without foreign requests
	Engines []EngineStats
	End     time.Duration // of the last request of the trace
}

// defaultScrape is the product's period of health and metrics.
const defaultScrape = time.Second

// run is a run under way.
type run struct {
	cfg     Config
	now     time.Duration
	events  queue
	engines []*engine
	result  Result
	left    int // requests of the trace that are not answered
	total   int
	number  uint64
	scrapes int
	block   int
}

// Run runs the trace until every request of it is answered.
func Run(cfg Config) (*Result, error) {
	if cfg.Scrape == 0 {
		cfg.Scrape = defaultScrape
	}
	r := &run{cfg: cfg}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if err := r.loop(); err != nil {
		return nil, err
	}
	return r.finish(), nil
}

// prepare checks the run and schedules what does not depend on answers.
func (r *run) prepare() error {
	t := r.cfg.Trace
	if len(r.cfg.Engines) == 0 || r.cfg.Router == nil || t == nil {
		return errors.New("virtual: engines, trace and router are required")
	}
	r.block = t.BlockTokens
	room := 0 // tokens of the smallest cache
	for i := range r.cfg.Engines {
		e := &r.cfg.Engines[i]
		if err := e.validate(); err != nil {
			return err
		}
		if e.BlockTokens != r.block {
			return fmt.Errorf("virtual: engine %s has blocks of %d tokens, the trace of %d", e.Name, e.BlockTokens, r.block)
		}
		if n := e.CacheTokens / e.BlockTokens * e.BlockTokens; room == 0 || n < room {
			room = n
		}
		r.engines = append(r.engines, newEngine(i, e))
	}
	for i := range t.Conversations {
		c := &t.Conversations[i]
		for k := range c.Requests {
			if n := r.tokens(&c.Requests[k]) + max(1, c.Requests[k].Output); n > room {
				return fmt.Errorf("virtual: conversation %s, request %d: %d tokens, the cache of an engine holds %d",
					c.Name, k+1, n, room)
			}
		}
		if len(c.Requests) > 0 {
			r.total += len(c.Requests)
			r.arriveAt(seconds(c.Start), i, 0)
		}
	}
	if r.left = r.total; r.total == 0 {
		return errors.New("virtual: the trace has no request")
	}
	r.result.Samples = make([]Sample, 0, r.total)
	return r.prepareOthers(room)
}

// prepareOthers schedules foreign requests and changes.
func (r *run) prepareOthers(room int) error {
	for i := range r.cfg.Foreign {
		f := &r.cfg.Foreign[i]
		if f.Engine < 0 || f.Engine >= len(r.engines) || f.Prompt < 1 || f.Output < 1 || f.Prompt+f.Output > room {
			return fmt.Errorf("virtual: foreign request %d: %d + %d tokens on engine %d", i, f.Prompt, f.Output, f.Engine)
		}
		q := &Request{Arrival: f.At, Prompt: f.Prompt, Output: f.Output, Engine: f.Engine, foreign: true}
		r.events.push(event{at: f.At, request: q})
	}
	for i := range r.cfg.Changes {
		c := &r.cfg.Changes[i]
		if c.Engine < 0 || c.Engine >= len(r.engines) {
			return fmt.Errorf("virtual: change %d of engine %d", i, c.Engine)
		}
		r.events.push(event{at: c.At, change: c})
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// tokens returns the length of a prompt.
func (r *run) tokens(q *replay.Request) int {
	return max(1, q.Length(r.block))
}

// arriveAt schedules a request of the trace.
func (r *run) arriveAt(at time.Duration, conversation, turn int) {
	c := &r.cfg.Trace.Conversations[conversation]
	q := &c.Requests[turn]
	n := r.tokens(q)
	session := uint64(conversation)
	if r.cfg.Trace.Turnless && len(q.Blocks) > 0 {
		session = q.Blocks[min(1, len(q.Blocks)-1)]
	}
	continues, repeats := turn > 0, 0
	switch {
	case turn > 0:
		before := &c.Requests[turn-1]
		repeats = min(n, r.tokens(before)+max(1, before.Output))
	case r.cfg.Trace.Turnless:
		continues, repeats = true, n
	}
	r.events.push(event{at: at, request: &Request{Conversation: conversation, Turn: turn, Name: c.Name, Tenant: c.Tenant,
		Continues: continues, Repeats: repeats, Session: session, Blocks: q.Blocks[:min(len(q.Blocks), n/r.block)],
		Prompt: n, Output: max(1, q.Output)}})
}

// loop runs until every request of the trace is answered.
func (r *run) loop() error {
	tick, scrape := time.Second, r.cfg.Scrape
	for r.left > 0 {
		next := min(tick, scrape)
		if len(r.events.heap) == 0 {
			return errors.New("BUG: virtual: requests are left and nothing will happen")
		}
		if next <= r.events.heap[0].at {
			r.now = next
			if next == tick {
				r.cfg.Router.Tick(r.now)
				tick += time.Second
			}
			if next == scrape {
				r.scrape()
				scrape += r.cfg.Scrape
			}
			continue
		}
		e := r.events.pop()
		r.now = e.at
		if err := r.happen(&e); err != nil {
			return err
		}
	}
	return nil
}

// happen applies one event.
func (r *run) happen(e *event) error {
	switch {
	case e.request != nil:
		return r.arrive(e.request)
	case e.change != nil:
		r.engines[e.change.Engine].model.SetTiming(e.change.Timing)
		return nil
	}
	r.endStep(e.engine)
	r.beginStep(e.engine)
	return nil
}

// arrive places a request and gives it to its engine.
func (r *run) arrive(q *Request) error {
	q.Arrival = r.now
	if !q.foreign {
		r.number++
		q.Number = r.number
		at, err := r.cfg.Router.Place(r.now, q)
		if err != nil {
			return fmt.Errorf("virtual: conversation %s, request %d: %w", q.Name, q.Turn+1, err)
		}
		q.Engine = at
		r.engines[at].stats.Requests++
	} else {
		r.engines[q.Engine].stats.Foreign++
	}
	e := r.engines[q.Engine]
	q.seq = simengine.Sequence{Prompt: q.Prompt, Output: q.Output, Hashes: q.Blocks, Data: q}
	e.model.Add(&q.seq)
	if !e.busy {
		r.beginStep(e)
	}
	return nil
}

// beginStep begins the engine's next step if there is something to compute.
func (r *run) beginStep(e *engine) {
	d, ok := e.model.Plan()
	if e.busy = ok; !ok {
		return
	}
	e.began = r.now
	r.events.push(event{at: r.now + max(d, 1), engine: e})
}

// endStep applies the effects of the step that is over: events first, as an engine
// publishes them before it sends the tokens.
func (r *run) endStep(e *engine) {
	e.stats.Busy += r.now - e.began
	advanced := e.model.Complete()
	if events := e.model.Events(); len(events) > 0 {
		r.cfg.Router.Events(r.now, e.index, events)
	}
	for _, s := range advanced {
		q := s.Data.(*Request)
		if s.Generated == 1 {
			q.First, q.Cached = r.now, s.Cached
			if !q.foreign {
				r.cfg.Router.FirstToken(r.now, q)
			}
		}
		if s.Done() && !q.foreign {
			r.answered(q)
		}
	}
}

// answered ends a request and schedules the next one of its conversation.
func (r *run) answered(q *Request) {
	r.cfg.Router.Done(r.now, q)
	r.left--
	s := Sample{Arrival: q.Arrival.Seconds(), TTFT: float32((q.First - q.Arrival).Seconds()),
		E2E: float32((r.now - q.Arrival).Seconds()), Prompt: int32(q.Prompt), Cached: int32(q.Cached),
		Predicted: int32(q.Predicted), Output: int32(q.Output), Engine: int32(q.Engine)}
	if q.Output > 1 {
		s.TPOT = float32((r.now - q.First).Seconds() / float64(q.Output-1))
	}
	r.result.Samples = append(r.result.Samples, s)
	r.result.End = r.now
	if r.cfg.Progress != nil && (r.left == 0 || (r.total-r.left)%max(1, r.total/100) == 0) {
		r.cfg.Progress(r.total-r.left, r.total)
	}
	c := &r.cfg.Trace.Conversations[q.Conversation]
	if q.Turn+1 == len(c.Requests) {
		return
	}
	think := max(0, seconds(c.Requests[q.Turn+1].Think))
	if most := r.cfg.MaxThink; most > 0 {
		think = min(think, most)
	}
	r.arriveAt(r.now+think, q.Conversation, q.Turn+1)
}

// scrape gives the router the figures of every engine.
func (r *run) scrape() {
	r.scrapes++
	for _, e := range r.engines {
		f := e.figures()
		e.waiting += float64(f.Waiting)
		e.stats.MaxWaiting = max(e.stats.MaxWaiting, f.Waiting)
		r.cfg.Router.Scraped(r.now, e.index, f)
	}
}

func (r *run) finish() *Result {
	for _, e := range r.engines {
		s := e.model.Stats()
		e.stats.ComputedTokens, e.stats.PromptTokens, e.stats.CachedTokens = s.StepTokens, s.PromptTokens, s.CachedTokens
		e.stats.MeanWaiting = e.waiting / float64(max(1, r.scrapes))
		r.result.Engines = append(r.result.Engines, e.stats)
	}
	return &r.result
}
