package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Reasons for a Reset that the subscriber finds itself.
const (
	ReasonRestart = "restart" // the publisher is another process than before
	ReasonGap     = "gap"     // messages are lost for good
	ReasonResync  = "resync"  // history can be replayed again after it could not
)

// Sink takes what a publisher tells. All methods are called from the goroutine
// that is in Run, one at a time, and must not block for long: while they do, the
// publisher's queue fills.
type Sink interface {
	// Joined tells that the subscriber is connected and has been told all history
	// that there is: what follows is live. It comes once per connection and after
	// each Resync.
	Joined()
	// Batch takes one message. Every sequence number comes once, in order, replayed
	// or live. b is valid until Batch returns.
	Batch(b *Batch)
	// Reset voids all that was told: blocks held are unknown again, as if the
	// publisher held nothing. Batches that follow count from there.
	Reset(reason string)
	// Lost tells that the messages from (incl.) to (excl.) will never come. What
	// is told afterwards may refer to blocks stored in them. After a loss within
	// the stream it follows a Reset.
	Lost(from, to uint64)
}

// Subscriber follows one publisher. Make it with New, run it with Run.
type Subscriber struct {
	cfg  Config
	wake chan struct{} // an order was left while no connection was there

	mu    sync.Mutex // guards st, cur, order, bound
	st    Stats
	bound net.Addr // Listen only
	cur   net.Conn // the live connection, to wake a blocked read
	order order

	// The rest belongs to the goroutine in Run.
	dec       Decoder
	have      bool    // last and ts are known
	last      uint64  // newest message taken
	ts        float64 // its time stamp, to tell processes apart
	replayed  uint64  // 1 + newest message that came by replay on this connection
	emptied   uint64  // 1 + last, when a replay socket had not even the last message
	noReplay  bool    // the replay socket keeps nothing
	failures  int     // replays that failed in a row
	retry     bool    // history is missing because replay failed
	nextProbe time.Time
	probing   bool // what is replayed comes from a publisher thought idle
}

// order is what another goroutine asks of the one in Run.
type order struct {
	reason string
	replay bool // also start again from the oldest message
}

// New makes a Subscriber. The error joins all faults of cfg.
func New(cfg Config) (*Subscriber, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Subscriber{cfg: cfg.withDefaults(), wake: make(chan struct{}, 1)}, nil
}

// Forget makes Run call Reset(reason) soon, and go on from where it is: for an
// engine that has dropped its cache without an event (sleep). Safe for
// concurrent use.
func (s *Subscriber) Forget(reason string) { s.leave(order{reason: reason}) }

// Resync makes Run call Reset(reason) soon and replay history from its oldest
// message: for an engine that is known to have restarted. Safe for concurrent use.
func (s *Subscriber) Resync(reason string) { s.leave(order{reason: reason, replay: true}) }

func (s *Subscriber) leave(o order) {
	s.mu.Lock()
	o.replay = o.replay || s.order.replay
	s.order = o
	if s.cur != nil {
		s.cur.SetReadDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// obey carries out a waiting order. It reports whether history is to be replayed.
func (s *Subscriber) obey(sink Sink) (replay bool) {
	s.mu.Lock()
	o := s.order
	s.order = order{}
	if o.reason != "" {
		s.st.ResetsOrdered++
		s.st.Partial = false
	}
	s.mu.Unlock()
	if o.reason == "" {
		return false
	}
	s.cfg.Log.Info("cache events reset", "endpoint", s.addr(), "reason", o.reason)
	sink.Reset(o.reason)
	if o.replay {
		s.have, s.replayed, s.emptied = false, 0, 0
		s.dec.Reset()
	}
	return o.replay
}

func (s *Subscriber) addr() string {
	if s.cfg.Listen != "" {
		return s.cfg.Listen
	}
	return s.cfg.Endpoint
}

// Run follows the publisher until ctx ends, whose error it returns. Lost
// connections are made again for ever; only a Listen address that cannot be
// listened on ends Run with another error. It must be called once.
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
		s.cfg.Log.LogAttrs(ctx, slog.LevelDebug, "cache events disconnected", slog.String("endpoint", addr), slog.Any("err", err))
		if time.Since(began) > s.cfg.BackoffMax {
			wait = s.cfg.BackoffMin
		}
		s.pause(ctx, jitter(wait), sink)
		wait = min(2*wait, s.cfg.BackoffMax)
	}
	return ctx.Err()
}

// jitter returns a time in [d/2, d], so that routers that lost an engine together
// do not come back together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep waits and reports whether ctx is still alive.
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

// pause waits, and obeys orders while it does.
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
			s.obey(sink)
		}
	}
}

var (
	pubTypes    = []string{"PUB", "XPUB"}
	routerTypes = []string{"ROUTER", "REP", "DEALER"}
)

// dial connects and shakes hands. It ends early with ctx.
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

// closeWith closes c when ctx ends. The returned function undoes that and, if it
// is too late for that, waits until the closing is done.
func closeWith(ctx context.Context, c net.Conn) (release func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { c.Close(); close(done) })
	return func() {
		if !stop() {
			<-done
		}
	}
}

func (s *Subscriber) note(f func(*Stats)) {
	s.mu.Lock()
	f(&s.st)
	s.mu.Unlock()
}

// session subscribes on a fresh connection, joins history, and follows the live
// stream until the connection or ctx ends. It closes the connection.
func (s *Subscriber) session(ctx context.Context, k *conn, sink Sink) error {
	defer k.c.Close()
	defer closeWith(ctx, k.c)()
	s.mu.Lock()
	s.cur = k.c
	s.st.Connects++
	s.st.Connected, s.st.Since = true, time.Now()
	s.mu.Unlock()
	defer s.note(func(st *Stats) {
		s.cur = nil
		st.Disconnects++
		st.Connected, st.Joined, st.Since = false, false, time.Now()
	})
	if err := k.subscribe(s.cfg.Topic); err != nil {
		return err
	}
	s.replayed = 0
	s.obey(sink)
	if err := s.join(ctx, sink); err != nil {
		return err
	}
	return s.follow(ctx, k, sink)
}

// joinTries is how often in a row a connection is given up because its replay
// failed, before the stream is followed without: a publisher that starts opens
// its two sockets one after the other.
const joinTries = 3

// join brings history up to date at the start of a connection.
func (s *Subscriber) join(ctx context.Context, sink Sink) error {
	if err := s.replay(ctx, sink, false); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.failures++
		if s.failures < joinTries {
			return err
		}
		s.retry = true
	}
	s.nextProbe = time.Now().Add(s.cfg.ProbeAfter)
	s.note(func(st *Stats) { st.Joined = true })
	sink.Joined()
	return nil
}

// follow reads live messages. Between them it obeys orders and probes an idle
// publisher.
func (s *Subscriber) follow(ctx context.Context, k *conn, sink Sink) error {
	for {
		deadline := time.Time{}
		if s.probes() {
			deadline = s.nextProbe
		}
		if err := k.c.SetReadDeadline(deadline); err != nil {
			return err
		}
		// Looked at after the deadline is set: whoever leaves an order shortens it.
		if s.obey(sink) {
			if err := s.join(ctx, sink); err != nil {
				return err
			}
		}
		if s.probes() && !time.Now().Before(s.nextProbe) {
			if err := s.probe(ctx, sink); err != nil {
				return err
			}
			continue
		}
		err := k.wait()
		if isTimeout(err) {
			continue
		}
		if err != nil {
			return err
		}
		frames, err := k.recv()
		if err != nil {
			return err
		}
		if err := s.message(ctx, frames, sink); err != nil {
			return err
		}
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// message takes one live message.
func (s *Subscriber) message(ctx context.Context, frames [][]byte, sink Sink) error {
	if len(frames) == 0 {
		return nil
	}
	if len(frames) != 3 || len(frames[1]) != 8 {
		s.note(func(st *Stats) { st.Malformed++ })
		return nil
	}
	if !s.retry { // a busy publisher must not put off the replay that is owed
		s.nextProbe = time.Now().Add(s.cfg.ProbeAfter)
	}
	return s.live(ctx, binary.BigEndian.Uint64(frames[1]), frames[2], sink)
}

// live puts a live message where it belongs in the sequence.
func (s *Subscriber) live(ctx context.Context, seq uint64, payload []byte, sink Sink) error {
	switch {
	case !s.have:
		if s.emptied != 0 && seq == s.emptied {
			s.noReplay = true // it went on counting, so it never restarted
		}
		s.lose(sink, 0, seq)
	case seq == s.last+1:
	case seq > s.last+1:
		s.note(func(st *Stats) { st.Gaps++ })
		if err := s.repair(ctx, sink, seq); err != nil {
			return err
		}
		if s.have && seq <= s.last {
			return nil
		}
	case seq < s.replayed && batchTime(payload) <= s.ts:
		s.note(func(st *Stats) { st.Duplicates++ })
		return nil
	default: // counting began again: another process
		s.reset(sink, ReasonRestart)
		if err := s.join(ctx, sink); err != nil {
			return err
		}
		if s.have && seq <= s.last {
			return nil
		}
		if s.have && seq > s.last+1 {
			s.lose(sink, s.last+1, seq)
		}
	}
	s.deliver(seq, payload, false, sink)
	return nil
}

// repair fills the hole before seq, or gives up what was known.
func (s *Subscriber) repair(ctx context.Context, sink Sink, seq uint64) error {
	var err error
	for range 2 {
		if err = s.replay(ctx, sink, false); err == nil || ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && s.cfg.Replay != "" {
		s.retry = true
	}
	from := uint64(0)
	if s.have {
		if seq <= s.last+1 {
			return nil
		}
		from = s.last + 1
	}
	s.reset(sink, ReasonGap)
	s.lose(sink, from, seq)
	return nil
}

// reset voids what was told and the position.
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

// lose tells that messages are lost for good, if there are any.
func (s *Subscriber) lose(sink Sink, from, to uint64) {
	if from >= to {
		return
	}
	s.note(func(st *Stats) { st.Lost += to - from; st.Partial = true })
	sink.Lost(from, to)
}

// deliver decodes a message and hands it on. An undecodable one is handed on as
// a batch without events, because its number was used.
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
