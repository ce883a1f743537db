package simengine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Engine is one simulated engine. All methods may be called concurrently; Run
// once.
type Engine struct {
	cfg     Config
	lex     *lexicon
	pub     *publisher
	faults  faultBox
	log     *requestLog
	wake    chan struct{} // cap 1: the model has work
	conns   connSet
	nextID  atomic.Uint64
	sources eventSources // set by Run before it serves

	mu      sync.Mutex // guards all below; taken before publisher.mu
	model   *Model
	enc     eventEncoder
	started time.Time
	hung    int               // requests held by a fault
	count   counters          // since the start
	downTil time.Time         // connections are refused until then
	running map[*job]struct{} // unfinished; woken by a restart
}

// counters are what the model does not count. They restart with the engine.
type counters struct {
	finished map[string]uint64 // by finished_reason
}

// job is one sequence on behalf of a request.
type job struct {
	Sequence
	tokens  []uint32 // prompt and answer
	adapter string
	salt    string
	stop    bool // the answer ends by itself

	model    *Model
	progress atomic.Int64  // tokens generated so far
	wake     chan struct{} // cap 1, shared by the jobs of a request: progress or lost
	lost     atomic.Bool   // the engine restarted under it
}

// New returns an engine that does nothing yet. It fails if the config is not
// valid or the vocabulary has no words to answer with.
func New(cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	lex, err := newLexicon(cfg.Vocabulary, cfg.EOS)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		cfg:  cfg,
		lex:  lex,
		wake: make(chan struct{}, 1),
		log:  newRequestLog(cfg.KeepRequests, cfg.KeepBytes),
		pub: &publisher{topic: []byte(cfg.Topic), hwm: cfg.HWM, steps: cfg.BufferSteps,
			oldReplay: cfg.OldReplay, subs: map[*subscriber]struct{}{}},
		enc:     eventEncoder{blockTokens: cfg.BlockTokens, arrays: cfg.ArrayEvents},
		running: map[*job]struct{}{},
	}
	e.faults.f = cfg.Faults
	e.faults.rng = rand.New(rand.NewPCG(cfg.Seed, 0))
	e.mu.Lock()
	e.resetLocked()
	e.mu.Unlock()
	return e, nil
}

// resetLocked makes the engine one that has just started.
func (e *Engine) resetLocked() {
	e.model = NewModel(ModelConfig{
		Timing: *e.cfg.Timing, BlockTokens: e.cfg.BlockTokens,
		CacheBlocks: e.cfg.CacheBlocks, MaxSeqs: e.cfg.MaxSeqs,
		ChunkBlocks: e.cfg.HostChunk / e.cfg.BlockTokens, HostChunks: e.cfg.HostTokens / max(1, e.cfg.HostChunk),
	})
	e.started = e.cfg.Clock.Now()
	e.count = counters{finished: map[string]uint64{}}
	e.hung = 0
}

// Run serves HTTP on ln, events on pub and their replay on replay until ctx
// ends, then closes all three and every connection, and returns nil when its
// goroutines are gone. pub and replay may be nil. It returns an error if a
// listener breaks.
func (e *Engine) Run(ctx context.Context, ln, pub, replay net.Listener) error {
	e.sources = e.eventSources(pub, replay)
	e.cfg.Log.Info("engine serves", "endpoint", ln.Addr().String(), "model", e.cfg.Model, "preset", e.cfg.Preset)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	accept := func(l net.Listener, serve func(context.Context, net.Conn)) {
		if l == nil {
			return
		}
		wg.Go(func() {
			if err := e.accept(ctx, l, serve); err != nil {
				cancel(err)
			}
		})
	}
	accept(ln, e.serveConn)
	accept(pub, e.pub.serveSub)
	accept(replay, e.pub.serveReplay)
	wg.Go(func() { e.drive(ctx) })
	wg.Go(func() {
		<-ctx.Done()
		for _, l := range []net.Listener{ln, pub, replay} {
			if l != nil {
				l.Close()
			}
		}
		e.conns.closeAll(true)
	})
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// accept serves the connections of one listener and waits for them.
func (e *Engine) accept(ctx context.Context, l net.Listener, serve func(context.Context, net.Conn)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if err != nil {
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
				continue
			}
			return fmt.Errorf("simengine: %w", err)
		}
		if e.down() || !e.conns.add(c) {
			c.Close()
			continue
		}
		wg.Go(func() {
			defer e.conns.remove(c)
			serve(ctx, c)
		})
	}
}

// down reports whether the engine is between a crash and its next start.
func (e *Engine) down() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cfg.Clock.Now().Before(e.downTil)
}

// drive runs the model: plan a step, let its time pass, apply it.
func (e *Engine) drive(ctx context.Context) {
	var end time.Time // of the last step; the next begins there if it is not late
	for ctx.Err() == nil {
		e.mu.Lock()
		m := e.model
		d, ok := m.Plan()
		e.mu.Unlock()
		if !ok {
			select {
			case <-e.wake:
			case <-ctx.Done():
			}
			end = time.Time{}
			continue
		}
		d = time.Duration(float64(d) / e.cfg.Speed)
		end = e.pass(ctx, end, d)
		e.mu.Lock()
		if e.model == m {
			e.completeLocked()
		}
		e.mu.Unlock()
	}
}

// maxLag is how late a step may begin and still have its lateness made up for;
// beyond it the machine is too slow for the simulation and time is lost.
const maxLag = 5 * time.Millisecond

// pass lets a step of length d pass that follows one that ended at end, and
// returns when it should have ended.
func (e *Engine) pass(ctx context.Context, end time.Time, d time.Duration) time.Time {
	if d == 0 {
		runtime.Gosched()
		return end
	}
	now := e.cfg.Clock.Now()
	if now.Sub(end) > maxLag {
		end = now
	}
	end = end.Add(d)
	if wait := end.Sub(now); wait > 0 {
		e.cfg.Clock.Sleep(ctx, wait)
	}
	return end
}

// completeLocked applies a step: events first, then the tokens, so that the events
// of a token's blocks are sent before the token.
func (e *Engine) completeLocked() {
	advanced := e.model.Complete()
	e.publishLocked()
	for _, s := range advanced {
		j := s.Data.(*job)
		j.progress.Store(int64(s.Generated))
		if s.Done() {
			delete(e.running, j)
			reason := "length"
			if j.stop {
				reason = "stop"
			}
			e.count.finished[reason]++
		}
		j.notify()
	}
}

func (j *job) notify() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// publishLocked sends what changed in the cache.
func (e *Engine) publishLocked() {
	events := e.model.Events()
	if len(events) == 0 {
		return
	}
	e.enc.scramble = e.faults.scrambler()
	for i := range events {
		if ev := &events[i]; ev.Seq == nil {
			e.enc.remove(ev.Removed)
		} else {
			s := ev.Seq.Data.(*job).stored(ev, e.cfg.Adapters, e.cfg.BlockTokens)
			e.enc.store(&s)
		}
	}
	e.sendLocked()
}

func (e *Engine) sendLocked() {
	lost, lostReplay := e.faults.drop()
	e.pub.publish(e.enc.batch(e.cfg.Clock.Now()), !lost, !lostReplay)
}

// start gives the model new jobs of one request.
func (e *Engine) start(jobs []*job) {
	e.mu.Lock()
	for _, j := range jobs {
		j.model = e.model
		j.Data = j
		e.model.Add(&j.Sequence)
		e.running[j] = struct{}{}
	}
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// abort ends and counts the jobs of a request that are unfinished.
func (e *Engine) abort(jobs []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range jobs {
		if j.model == e.model && e.model.Abort(&j.Sequence) {
			e.count.finished["abort"]++
		}
		delete(e.running, j)
	}
}

// cached returns the cached prompt tokens of jobs of one request.
func (e *Engine) cached(jobs []*job) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range jobs {
		n += j.Cached
	}
	return n
}

// restart drops everything a process holds in memory and refuses connections
// for the time down.
func (e *Engine) restart(down time.Duration) {
	e.mu.Lock()
	e.resetLocked()
	e.started = e.started.Add(down)
	e.downTil = e.started
	for j := range e.running {
		j.lost.Store(true)
		j.notify()
	}
	clear(e.running)
	e.pub.restart()
	e.mu.Unlock()
	e.cfg.Log.Info("engine restarts", "model", e.cfg.Model, "down", down)
	e.conns.closeAll(false)
	select {
	case e.wake <- struct{}{}: // the driver may wait for the old model's next step
	default:
	}
}

// Reset empties the cache and publishes AllBlocksCleared. It reports false and
// does nothing while requests run.
func (e *Engine) Reset() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.model.Reset() {
		return false
	}
	e.enc.cleared()
	e.sendLocked()
	return true
}

// connSet holds the open connections of an engine.
type connSet struct {
	mu     sync.Mutex
	open   map[net.Conn]struct{} // guarded by mu
	closed bool                  // guarded by mu
}

func (s *connSet) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open == nil {
		s.open = map[net.Conn]struct{}{}
	}
	s.open[c] = struct{}{}
	return true
}

func (s *connSet) remove(c net.Conn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	c.Close()
}

// closeAll closes every connection, and with last all that are yet to come.
func (s *connSet) closeAll(last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = s.closed || last
	for c := range s.open {
		c.Close()
	}
}
