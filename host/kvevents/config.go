package kvevents

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"
)

// Config is where a publisher is, with the timeouts and limits for it. The zero
// value of every field but the addresses means its default.
type Config struct {
	// Endpoint is the publisher's address, "tcp://host:port" or "ipc://path".
	// Exactly one of Endpoint and Listen is set.
	Endpoint string
	// Listen is the address to wait on for an engine that dials us. The newest
	// connection that completes its handshake is the one that is read.
	Listen string
	// Replay is the address of the publisher's replay socket, "" if it has none:
	// then nothing published before the subscription is known, and no gap can be
	// repaired.
	Replay string
	// Topic is the prefix of the topics subscribed to; "" means all, which is usual:
	// a publisher is identified by its address, not by its topic.
	Topic string

	// MaxMessageBytes bounds one message. Default 16 MiB: a batch that stores
	// three million tokens. With less, the batch of a burst of long prompts is lost;
	// with more, a broken peer can take more memory.
	MaxMessageBytes int
	// DialTimeout bounds connecting and the handshake, and how long a message that
	// has begun may take. Default 5 s.
	DialTimeout time.Duration
	// ReplayTimeout bounds the wait for the next replayed message. Default 5 s: vLLM
	// answers between two batches, and polls every 0.1 s when idle.
	ReplayTimeout time.Duration
	// BackoffMin and BackoffMax bound the wait before a connection is tried again;
	// it doubles from one to the other and is jittered by half. Default 100 ms and
	// 5 s: an engine takes tens of seconds to start, and one dial in 5 s is cheap.
	BackoffMin, BackoffMax time.Duration
	// ProbeAfter is how long after its last message an idle publisher is probed: a
	// replay from that message on shows whether it was the last. ProbeEvery is the
	// time between further probes. They find messages lost at the end of a burst,
	// which leave no gap. Default 2 s and 30 s; negative: never.
	ProbeAfter, ProbeEvery time.Duration

	// Dial replaces net.Dialer (with TCP keep-alive of 30 s in all).
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log receives losses and restarts at Info, connections at Debug. nil: nothing is
	// logged.
	Log *slog.Logger
}

// keepAlive finds a host that has vanished without closing its connections
// within half a minute; ZMTP 3.0 has no heartbeat.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = 16 << 20
	}
	set(&c.DialTimeout, 5*time.Second)
	set(&c.ReplayTimeout, 5*time.Second)
	set(&c.BackoffMin, 100*time.Millisecond)
	set(&c.BackoffMax, 5*time.Second)
	set(&c.ProbeAfter, 2*time.Second)
	set(&c.ProbeEvery, 30*time.Second)
	if c.Dial == nil {
		d := &net.Dialer{KeepAliveConfig: keepAlive}
		c.Dial = d.DialContext
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate returns all errors of the configuration, joined.
func (c Config) Validate() error {
	var faults []error
	if (c.Endpoint == "") == (c.Listen == "") {
		faults = append(faults, errors.New("kvevents: exactly one of endpoint and listen must be set"))
	}
	for _, a := range []string{c.Endpoint, c.Listen, c.Replay} {
		if a == "" {
			continue
		}
		if _, _, err := parseAddr(a); err != nil {
			faults = append(faults, err)
		}
	}
	if c.MaxMessageBytes < 0 || c.DialTimeout < 0 || c.ReplayTimeout < 0 || c.BackoffMin < 0 || c.BackoffMax < 0 {
		faults = append(faults, errors.New("kvevents: negative size or time"))
	}
	return errors.Join(faults...)
}
