package kvevents

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Reasons for a Reset that the subscriber finds itself.
const (
	ReasonRestart = "restart" // the publisher is another process than before
	ReasonGap     = "gap"     // messages cannot be recovered
	ReasonResync  = "resync"  // history can be replayed again after a failure
)

// Sink receives the events of a publisher. All methods are called from the
// goroutine in Run, one at a time, and must not block for long: meanwhile the
// publisher's queue fills.
type Sink interface {
	// Joined means that the subscriber is connected and has delivered all history
	// that there is: what follows is live. It is called once per connection and
	// after each Resync.
	Joined()
	// Batch is called for every sequence number once, in order, whether the message
	// was replayed or live. b is valid until Batch returns.
	Batch(b *Batch)
	// Reset invalidates all earlier batches, as if the publisher held nothing.
	// Batches that follow start from there.
	Reset(reason string)
	// Lost means that the messages in [from, to) cannot be recovered. Later events
	// may refer to blocks stored in them. After a loss within the stream it follows
	// a Reset.
	Lost(from, to uint64)
}

// Subscriber follows one publisher. Make it with New, run it with Run.
type Subscriber struct {
	cfg  Config
	wake chan struct{} // a command was stored while there was no connection

	mu      sync.Mutex // guards st, cur, command, bound
	st      Stats
	bound   net.Addr // Listen only
	cur     net.Conn // the live connection, to wake a blocked read
	command command

	// The rest belongs to the goroutine in Run.
	dec       Decoder
	have      bool    // last and ts are known
	last      uint64  // newest message delivered
	ts        float64 // its time stamp, to distinguish processes
	replayed  uint64  // 1 + newest message replayed on this connection
	emptied   uint64  // 1 + last, when the replay socket did not have the last message
	noReplay  bool    // the replay socket keeps nothing
	failures  int     // replays that failed in a row
	retry     bool    // history is missing because replay failed
	nextProbe time.Time
	probing   bool // the publisher of the replay was thought idle
}

// command is what another goroutine wants the one in Run to do.
type command struct {
	reason string
	replay bool // also start again from the oldest message
}

// New makes a Subscriber. Its error is that of Config.Validate.
func New(cfg Config) (*Subscriber, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Subscriber{cfg: cfg.withDefaults(), wake: make(chan struct{}, 1)}, nil
}

// Forget makes Run call Reset(reason) soon, and go on from where it is: for an
// engine that has dropped its cache without an event (sleep). Safe for
// concurrent use.
func (s *Subscriber) Forget(reason string) { s.send(command{reason: reason}) }

// Resync makes Run call Reset(reason) soon and replay history from its oldest
// message: for an engine that is known to have restarted. Safe for concurrent use.
func (s *Subscriber) Resync(reason string) { s.send(command{reason: reason, replay: true}) }

// send stores a command, which replaces one that waits, and wakes Run.
func (s *Subscriber) send(c command) {
	s.mu.Lock()
	c.replay = c.replay || s.command.replay
	s.command = c
	if s.cur != nil {
		s.cur.SetReadDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// handleCommand carries out a command that waits. It reports whether history is to
// be replayed.
func (s *Subscriber) handleCommand(sink Sink) (replay bool) {
	s.mu.Lock()
	c := s.command
	s.command = command{}
	if c.reason != "" {
		s.st.ResetsRequested++
		s.st.Partial = false
	}
	s.mu.Unlock()
	if c.reason == "" {
		return false
	}
	s.cfg.Log.Info("cache events reset", "endpoint", s.addr(), "reason", c.reason)
	sink.Reset(c.reason)
	if c.replay {
		s.have, s.replayed, s.emptied = false, 0, 0
		s.dec.Reset()
	}
	return c.replay
}

func (s *Subscriber) addr() string {
	if s.cfg.Listen != "" {
		return s.cfg.Listen
	}
	return s.cfg.Endpoint
}

// Run follows the publisher until ctx ends, and returns the error of ctx. It
// reconnects without limit; only a Listen address that cannot be bound ends Run
// with another error. It must be called once.
func (s *Subscriber) Run(ctx context.Context, sink Sink) error {
	if s.cfg.Listen != "" {
		return s.runListen(ctx, sink)
	}
	network, addr, err := parseAddr(s.cfg.Endpoint)
	if err != nil {
		return err
	}
	wait := s.cfg.BackoffMin
	for ctx.Err() == nil {
		began := time.Now()
		k, err := s.dial(ctx, network, addr, "SUB", pubTypes)
		if err == nil {
			err = s.session(ctx, k, sink)
		} else {
			s.note(func(st *Stats) { st.DialErrors++ })
		}
		s.cfg.Log.LogAttrs(ctx, slog.LevelDebug, "cache events disconnected", slog.String("endpoint", addr), slog.Any("err",
			err))
		if time.Since(began) > s.cfg.BackoffMax {
			wait = s.cfg.BackoffMin
		}
		s.pause(ctx, jitter(wait), sink)
		wait = min(2*wait, s.cfg.BackoffMax)
	}
	return ctx.Err()
}

// jitter returns a time in [d/2, d], so that routers that lost an engine at the
// same time do not reconnect at the same time.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep waits for d and reports true, or false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// pause waits for d, and handles commands meanwhile.
func (s *Subscriber) pause(ctx context.Context, d time.Duration, sink Sink) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case <-s.wake:
			s.handleCommand(sink)
		}
	}
}

var (
	pubTypes    = []string{"PUB", "XPUB"}
	routerTypes = []string{"ROUTER", "REP", "DEALER"}
)

// dial connects and completes the handshake. It ends early if ctx ends.
func (s *Subscriber) dial(ctx context.Context, network, addr, role string, peers []string) (*conn, error) {
	dctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	c, err := s.cfg.Dial(dctx, network, addr)
	if err != nil {
		return nil, err
	}
	release := closeWith(dctx, c)
	k, err := handshake(c, role, peers, s.cfg.MaxMessageBytes, s.cfg.DialTimeout)
	release()
	if err == nil && dctx.Err() != nil {
		err = dctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return k, nil
}

// closeWith closes c when ctx ends. The returned function stops that or, if ctx has
// ended, waits until c is closed.
func closeWith(ctx context.Context, c net.Conn) (release func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { c.Close(); close(done) })
	return func() {
		if !stop() {
			<-done
		}
	}
}

// note changes the stats.
func (s *Subscriber) note(f func(*Stats)) {
	s.mu.Lock()
	f(&s.st)
	s.mu.Unlock()
}

// reset invalidates earlier batches and the position in the sequence.
func (s *Subscriber) reset(sink Sink, reason string) {
	s.have, s.replayed = false, 0
	if reason == ReasonRestart {
		s.dec.Reset()
	}
	s.note(func(st *Stats) {
		st.Partial = false
		switch reason {
		case ReasonRestart:
			st.ResetsRestart++
		case ReasonGap:
			st.ResetsGap++
		default:
			st.ResetsResync++
		}
	})
	s.cfg.Log.Info("cache events reset", "endpoint", s.addr(), "reason", reason)
	sink.Reset(reason)
}

// reportLost reports messages that cannot be recovered, if there are any.
func (s *Subscriber) reportLost(sink Sink, from, to uint64) {
	if from >= to {
		return
	}
	s.note(func(st *Stats) { st.Lost += to - from; st.Partial = true })
	sink.Lost(from, to)
}

// deliver decodes a message and passes it to sink. One that cannot be decoded is
// passed as a batch without events, because its number was used.
func (s *Subscriber) deliver(seq uint64, payload []byte, replayed bool, sink Sink) {
	b, err := s.dec.Decode(payload)
	if err != nil {
		b = &Batch{Rank: -1, Failed: 1}
	}
	b.Seq, b.Replayed = seq, replayed
	s.have, s.last, s.ts, s.emptied = true, seq, batchTime(payload), 0
	if replayed {
		s.replayed = seq + 1
	}
	s.mu.Lock()
	s.st.Messages++
	s.st.Bytes += uint64(len(payload))
	s.st.LastSeq, s.st.LastBatch = seq, time.Now()
	s.st.Decode = s.dec.Stats
	if replayed {
		s.st.Replayed++
	}
	if s.probing {
		s.st.TailFound++
	}
	s.mu.Unlock()
	sink.Batch(b)
}

// batchTime returns the time stamp of a payload, 0 if it has none that can be
// read. It is the same for the same bytes, decodable or not.
func batchTime(payload []byte) float64 {
	r := reader{b: payload}
	c, err := r.peek()
	if err != nil {
		return 0
	}
	if isArray(c) {
		if n, err := r.array(); err != nil || n == 0 {
			return 0
		}
		ts, _ := r.number()
		return ts
	}
	n, err := r.object()
	for ; err == nil && n > 0; n-- {
		key, err := r.text()
		if err != nil {
			return 0
		}
		if string(key) == "ts" {
			ts, _ := r.number()
			return ts
		}
		if r.skip() != nil {
			return 0
		}
	}
	return 0
}
