// Package fakepub is an in-process publisher of cache events for tests: a PUB
// and a ROUTER socket that speak ZMTP 3.0 as an engine's do, with faults on
// demand (lost messages, full queues, dropped connections, restarts, replay
// refused or cut short). It shares no code with the subscriber it is used to test.
package fakepub

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
)

// Config shapes a Publisher. The zero value is an engine of today.
type Config struct {
	Topic       string
	BufferSteps int  // messages kept for replay; 0: 10,000; negative: none
	TwoFrames   bool // replay replies without a topic, as before vllm#45177
	HWM         int  // messages queued per subscriber before new ones are dropped; 0: 100,000
}

// Publisher is one publishing engine. All methods may be called concurrently.
type Publisher struct {
	cfg      Config
	pub, rep net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond
	seq      uint64
	buffer   []message
	subs     map[*sub]bool
	conns    map[net.Conn]bool
	drop     int
	refuse   bool
	replays  int
	accepted int
	closed   bool
}

type message struct {
	seq     uint64
	payload []byte
}

type sub struct {
	topics [][]byte
	queue  chan message
	done   chan struct{}
}

// New starts a publisher on two free ports of 127.0.0.1.
func New(cfg Config) (*Publisher, error) {
	if cfg.BufferSteps == 0 {
		cfg.BufferSteps = 10_000
	}
	if cfg.HWM == 0 {
		cfg.HWM = 100_000
	}
	pub, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	rep, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		pub.Close()
		return nil, err
	}
	p := &Publisher{cfg: cfg, pub: pub, rep: rep, subs: map[*sub]bool{}, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.wg.Go(func() { p.accept(pub, p.servePub) })
	p.wg.Go(func() { p.accept(rep, p.serveReplay) })
	return p, nil
}

// Endpoint returns the address of the event socket.
func (p *Publisher) Endpoint() string { return "tcp://" + p.pub.Addr().String() }

// Replay returns the address of the replay socket.
func (p *Publisher) Replay() string { return "tcp://" + p.rep.Addr().String() }

// Close ends the publisher and waits for its goroutines.
func (p *Publisher) Close() {
	p.pub.Close()
	p.rep.Close()
	p.mu.Lock()
	p.closed = true
	p.closeConnsLocked()
	p.changed.Broadcast()
	p.mu.Unlock()
	p.wg.Wait()
}

// Publish sends a payload and returns its sequence number.
func (p *Publisher) Publish(payload []byte) uint64 {
	return p.PublishFunc(func(uint64) []byte { return payload })
}

// PublishFunc sends the payload that f makes for its sequence number.
func (p *Publisher) PublishFunc(f func(seq uint64) []byte) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.KeepLocked(f(p.seq))
	if p.drop > 0 {
		p.drop--
		return m.seq
	}
	for s := range p.subs {
		if len(s.topics) == 0 {
			continue
		}
		select {
		case s.queue <- m:
		default: // high water mark: the newest is lost
		}
	}
	return m.seq
}

// KeepLocked counts and keeps a message without sending it. It is for use inside
// RestartWith.
func (p *Publisher) KeepLocked(payload []byte) message {
	m := message{p.seq, payload}
	p.seq++
	if p.cfg.BufferSteps > 0 {
		p.buffer = append(p.buffer, m)
		p.buffer = p.buffer[max(0, len(p.buffer)-p.cfg.BufferSteps):]
	}
	return m
}

// Seq returns the sequence number of the next message.
func (p *Publisher) Seq() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq
}

// Drop loses the next n messages on their way to subscribers; they can be replayed.
func (p *Publisher) Drop(n int) { p.mu.Lock(); p.drop = n; p.mu.Unlock() }

// Skip counts n messages that are neither sent nor kept.
func (p *Publisher) Skip(n int) {
	p.mu.Lock()
	p.seq += uint64(n)
	p.buffer = nil
	p.mu.Unlock()
}

// RefuseReplay makes the replay socket close connections unanswered.
func (p *Publisher) RefuseReplay(refuse bool) { p.mu.Lock(); p.refuse = refuse; p.mu.Unlock() }

// Disconnect closes all connections; the engine lives on.
func (p *Publisher) Disconnect() { p.mu.Lock(); p.closeConnsLocked(); p.mu.Unlock() }

// Restart closes all connections and counts from 0 again, with nothing kept.
func (p *Publisher) Restart() { p.RestartWith(func() {}) }

// RestartWith is Restart; the engine publishes what f keeps before anyone can
// connect to it.
func (p *Publisher) RestartWith(f func()) {
	p.mu.Lock()
	p.seq, p.buffer, p.drop = 0, nil, 0
	p.subs = map[*sub]bool{}
	p.closeConnsLocked()
	f()
	p.mu.Unlock()
}

// Recount counts from 0 again on the same connections, as behind a forwarder.
func (p *Publisher) Recount() { p.mu.Lock(); p.seq, p.buffer = 0, nil; p.mu.Unlock() }

// WaitSubscribers waits until n subscriptions have been made since New.
func (p *Publisher) WaitSubscribers(ctx context.Context, n int) error {
	return p.wait(ctx, func() bool { return p.accepted >= n })
}

// WaitReplays waits until n replay requests have been answered or refused.
func (p *Publisher) WaitReplays(ctx context.Context, n int) error {
	return p.wait(ctx, func() bool { return p.replays >= n })
}

func (p *Publisher) wait(ctx context.Context, f func() bool) error {
	stop := context.AfterFunc(ctx, func() { p.mu.Lock(); p.changed.Broadcast(); p.mu.Unlock() })
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !f() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p.closed {
			return net.ErrClosed
		}
		p.changed.Wait()
	}
	return nil
}

func (p *Publisher) closeConnsLocked() {
	for c := range p.conns {
		c.Close()
	}
}

func (p *Publisher) accept(ln net.Listener, serve func(net.Conn)) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			c.Close()
			return
		}
		p.conns[c] = true
		p.mu.Unlock()
		p.wg.Go(func() {
			serve(c)
			c.Close()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		})
	}
}

// DialInto connects to a subscriber that listens and publishes to it, as engines
// that connect do. It returns when the connection has ended.
func (p *Publisher) DialInto(ctx context.Context, addr string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.conns[c] = true
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	p.servePub(c)
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	return c.Close()
}

func (p *Publisher) servePub(c net.Conn) {
	r, err := Handshake(c, "PUB")
	if err != nil {
		return
	}
	s := &sub{queue: make(chan message, p.cfg.HWM), done: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() { p.write(c, s) })
	for {
		frames, err := ReadMessage(r)
		if err != nil {
			break
		}
		if len(frames) != 1 || len(frames[0]) == 0 || frames[0][0] != 1 {
			continue
		}
		p.mu.Lock()
		s.topics = append(s.topics, frames[0][1:])
		p.subs[s] = true
		p.accepted++
		p.changed.Broadcast()
		p.mu.Unlock()
	}
	p.mu.Lock()
	delete(p.subs, s)
	p.mu.Unlock()
	close(s.done)
	c.Close()
	wg.Wait()
}

func (p *Publisher) write(c net.Conn, s *sub) {
	for {
		select {
		case <-s.done:
			return
		case m := <-s.queue:
			if WriteMessage(c, []byte(p.cfg.Topic), binary.BigEndian.AppendUint64(nil, m.seq), m.payload) != nil {
				return
			}
		}
	}
}

func (p *Publisher) serveReplay(c net.Conn) {
	r, err := Handshake(c, "ROUTER")
	if err != nil {
		return
	}
	for {
		frames, err := ReadMessage(r)
		if err != nil {
			return
		}
		if len(frames) != 2 || len(frames[0]) != 0 || len(frames[1]) != 8 {
			continue // an engine logs this and does not answer
		}
		start := binary.BigEndian.Uint64(frames[1])
		p.mu.Lock()
		buffer, refuse := p.buffer, p.refuse
		p.mu.Unlock()
		if !refuse {
			for _, m := range buffer {
				if m.seq >= start {
					err = errors.Join(err, p.answer(c, binary.BigEndian.AppendUint64(nil, m.seq), m.payload))
				}
			}
			err = errors.Join(err, p.answer(c, binary.BigEndian.AppendUint64(nil, 1<<64-1), nil))
		}
		p.mu.Lock()
		p.replays++
		p.changed.Broadcast()
		p.mu.Unlock()
		if refuse || err != nil {
			return
		}
	}
}

func (p *Publisher) answer(c net.Conn, seq, payload []byte) error {
	if p.cfg.TwoFrames {
		return WriteMessage(c, nil, seq, payload)
	}
	return WriteMessage(c, nil, []byte(p.cfg.Topic), seq, payload)
}

// Handshake speaks the greeting and READY as a socket of the given type.
func Handshake(c net.Conn, role string) (*bufio.Reader, error) {
	g := make([]byte, 64)
	g[0], g[9], g[10], g[11] = 0xff, 0x7f, 3, 1
	copy(g[12:], "NULL")
	ready := append([]byte("\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00"), byte(len(role)))
	ready = append(ready, role...)
	ready[1] = byte(len(ready) - 2)
	if _, err := c.Write(g); err != nil {
		return nil, err
	}
	r := bufio.NewReader(c)
	if _, err := io.ReadFull(r, make([]byte, 64)); err != nil {
		return nil, err
	}
	if _, err := c.Write(ready); err != nil {
		return nil, err
	}
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	_, err := io.ReadFull(r, make([]byte, head[1]))
	return r, err
}

// ReadMessage reads the frames of one message.
func ReadMessage(r *bufio.Reader) ([][]byte, error) {
	var frames [][]byte
	for {
		flags, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		size := make([]byte, 8)
		if flags&2 == 0 {
			_, err = io.ReadFull(r, size[7:])
		} else {
			_, err = io.ReadFull(r, size)
		}
		n := binary.BigEndian.Uint64(size)
		if err != nil || n > 1<<20 {
			return nil, errors.Join(err, io.ErrUnexpectedEOF)
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		if frames = append(frames, body); flags&1 == 0 {
			return frames, nil
		}
	}
}

// WriteMessage writes frames as one message.
func WriteMessage(w io.Writer, frames ...[]byte) error {
	var b []byte
	for i, f := range frames {
		more := byte(1)
		if i == len(frames)-1 {
			more = 0
		}
		if len(f) < 256 {
			b = append(b, more, byte(len(f)))
		} else {
			b = binary.BigEndian.AppendUint64(append(b, more|2), uint64(len(f)))
		}
		b = append(b, f...)
	}
	_, err := w.Write(b)
	return err
}
