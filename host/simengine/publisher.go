package simengine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"time"
)

// publisher is the PUB and the ROUTER socket of one engine. Each batch gets the
// next sequence number, goes to every subscriber whose topic matches, and is
// kept for replay. A subscriber that does not keep up loses the newest batches
// once its queue is full, as with a ZeroMQ high-water mark. All methods may be
// called concurrently.
type publisher struct {
	topic     []byte
	hwm       int
	steps     int // batches kept
	oldReplay bool

	mu      sync.Mutex
	seq     uint64 // guarded by mu: the next batch's
	kept    []keptBatch
	subs    map[*subscriber]struct{} // guarded by mu
	dropped uint64                   // guarded by mu: batches that subscribers lost
}

// keptBatch is a batch in the replay buffer; kept is ordered by seq.
type keptBatch struct {
	seq     uint64
	payload []byte
}

// subscriber is one connection to the PUB socket.
type subscriber struct {
	queue  [][]byte      // guarded by publisher.mu: encoded messages, hwm at most
	topics [][]byte      // guarded by publisher.mu
	wake   chan struct{} // cap 1: the queue is not empty
}

func newSubscriber() *subscriber { return &subscriber{wake: make(chan struct{}, 1)} }

// publish sends one batch. live and replay are whether subscribers and replay
// get it; its sequence number is used up in any case. payload is kept.
func (p *publisher) publish(payload []byte, live, replay bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := p.seq
	p.seq++
	if replay {
		if len(p.kept) == p.steps {
			p.kept[0].payload = nil
			p.kept = p.kept[1:]
		}
		p.kept = append(p.kept, keptBatch{seq, payload})
	}
	if !live || len(p.subs) == 0 {
		return
	}
	msg := appendMessage(make([]byte, 0, len(payload)+32+len(p.topic)), p.topic, sequence(seq), payload)
	for s := range p.subs {
		if !s.wants(p.topic) {
			continue
		}
		if len(s.queue) >= p.hwm {
			p.dropped++
			continue
		}
		s.queue = append(s.queue, msg)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// take appends what is queued for s to buf, in order.
func (p *publisher) take(s *subscriber, buf net.Buffers) net.Buffers {
	p.mu.Lock()
	defer p.mu.Unlock()
	buf = append(buf, s.queue...)
	clear(s.queue)
	s.queue = s.queue[:0]
	return buf
}

func sequence(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// wants reports whether a subscription is a prefix of topic.
func (s *subscriber) wants(topic []byte) bool {
	for _, t := range s.topics {
		if bytes.HasPrefix(topic, t) {
			return true
		}
	}
	return false
}

// restart begins again at sequence 0 with nothing to replay.
func (p *publisher) restart() {
	p.mu.Lock()
	p.seq, p.kept = 0, nil
	p.mu.Unlock()
}

// subscribers returns how many connections have a subscription.
func (p *publisher) subscribers() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subs {
		if len(s.topics) > 0 {
			n++
		}
	}
	return n
}

// serveSub serves one connection to the PUB socket until either side closes it.
func (p *publisher) serveSub(ctx context.Context, c net.Conn) {
	br := bufio.NewReader(c)
	_ = c.SetReadDeadline(time.Now().Add(handshakeTime))
	if err := handshake(c, br, "PUB"); err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	s := newSubscriber()
	p.mu.Lock()
	p.subs[s] = struct{}{}
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer c.Close() // wakes the reader
		p.write(ctx, s, c)
	})
	p.readSubscriptions(s, br)
	p.mu.Lock()
	delete(p.subs, s)
	p.mu.Unlock()
	cancel()
	c.Close() // wakes a writer that the peer does not read from
	wg.Wait()
}

// handshakeTime bounds how long a peer may take to greet.
const handshakeTime = 10 * time.Second

// write sends what is queued until ctx ends or the peer is gone. What is being
// sent counts no more towards the high-water mark, as what ZeroMQ has given to
// the kernel does not.
func (p *publisher) write(ctx context.Context, s *subscriber, c net.Conn) {
	var messages net.Buffers
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		messages = p.take(s, messages[:0])
		rest := messages // WriteTo consumes its receiver
		if _, err := rest.WriteTo(c); err != nil {
			return
		}
		clear(messages)
	}
}

// readSubscriptions reads what the peer subscribes to until it leaves.
func (p *publisher) readSubscriptions(s *subscriber, br *bufio.Reader) {
	for {
		frames, command, err := readMessage(br)
		if err != nil {
			return
		}
		if command || len(frames) != 1 || len(frames[0]) == 0 {
			continue
		}
		topic := frames[0][1:]
		p.mu.Lock()
		switch frames[0][0] {
		case 1:
			if len(s.topics) < maxTopics {
				s.topics = append(s.topics, topic)
			}
		case 0:
			i := slices.IndexFunc(s.topics, func(t []byte) bool { return bytes.Equal(t, topic) })
			if i >= 0 {
				s.topics = slices.Delete(s.topics, i, i+1)
			}
		}
		p.mu.Unlock()
	}
}

// maxTopics bounds the subscriptions of one connection.
const maxTopics = 1024

// replayEnd is the sequence number that ends a replay.
const replayEnd = 1<<64 - 1

// serveReplay serves one connection to the ROUTER socket: each request
// ["", first sequence number] is answered with one message per kept batch from
// there on, then one that ends it.
func (p *publisher) serveReplay(_ context.Context, c net.Conn) {
	br := bufio.NewReader(c)
	_ = c.SetReadDeadline(time.Now().Add(handshakeTime))
	if err := handshake(c, br, "ROUTER"); err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	for {
		frames, command, err := readMessage(br)
		if err != nil {
			return
		}
		if command || len(frames) != 2 || len(frames[0]) != 0 || len(frames[1]) != 8 {
			continue // vLLM logs and ignores it
		}
		if err := p.replay(c, binary.BigEndian.Uint64(frames[1])); err != nil {
			return
		}
	}
}

// replay writes the kept batches from a sequence number on.
func (p *publisher) replay(c net.Conn, from uint64) error {
	p.mu.Lock()
	i, _ := slices.BinarySearchFunc(p.kept, from, func(k keptBatch, from uint64) int {
		switch {
		case k.seq < from:
			return -1
		case k.seq > from:
			return 1
		}
		return 0
	})
	kept := slices.Clone(p.kept[i:])
	p.mu.Unlock()
	bw := bufio.NewWriterSize(c, 64<<10)
	var buf []byte
	for _, k := range append(kept, keptBatch{seq: replayEnd}) {
		buf = p.replayMessage(buf[:0], k)
		if _, err := bw.Write(buf); err != nil {
			return err
		}
	}
	return bw.Flush()
}

func (p *publisher) replayMessage(b []byte, k keptBatch) []byte {
	if p.oldReplay {
		return appendMessage(b, nil, sequence(k.seq), k.payload)
	}
	topic := p.topic
	if k.seq == replayEnd {
		topic = nil
	}
	return appendMessage(b, nil, topic, sequence(k.seq), k.payload)
}
