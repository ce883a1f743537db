package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
)

// Config sets up a Proxy. A zero field means its default.
type Config struct {
	// MaxConnections bounds client connections. Default 100000: idle ones are
	// cheap, and descriptors run out first.
	MaxConnections int

	// Timeouts are the limits of targets that set none. Default
	// exchange.DefaultTimeouts.
	Timeouts exchange.Timeouts
	// BodyTimeout is how long a client may take to send its head, and each further
	// MiB of its body. Default 60s.
	BodyTimeout time.Duration
	// ClientWriteTimeout is how long a client may accept no byte of an answer.
	// Default 60s.
	ClientWriteTimeout time.Duration
	// IdleTimeout is how long an idle connection to an engine is kept. Default
	// 4s: uvicorn, which serves vLLM and SGLang, closes at 5s.
	IdleTimeout time.Duration
	// MaxIdlePerEndpoint bounds the idle connections to one engine. Default 512.
	MaxIdlePerEndpoint int
	// MaxAttempts bounds how often one request is sent or a connection for it is tried,
	// for whatever reason it is moved. Default 3.
	MaxAttempts int
	// DrainTimeout is how long Run waits for streams when its context ends.
	// Default 5m.
	DrainTimeout time.Duration

	// Heartbeat is when the stream of a held request begins, and the time between its
	// signs of life. Default 5s: the shortest timeout of common proxies in between
	// is 10s without a byte.
	Heartbeat time.Duration
	// TLS is used with clients, if set. With ClientCAs their certificates are
	// credentials.
	TLS *tls.Config
}

func (c Config) withDefaults() Config {
	set := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 100_000
	}
	if c.MaxIdlePerEndpoint == 0 {
		c.MaxIdlePerEndpoint = 512
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 3
	}
	d := exchange.DefaultTimeouts()
	c.Timeouts = c.Timeouts.Or(&d)
	set(&c.Heartbeat, 5*time.Second)
	set(&c.BodyTimeout, time.Minute)
	set(&c.ClientWriteTimeout, time.Minute)
	set(&c.IdleTimeout, 4*time.Second)
	set(&c.DrainTimeout, 5*time.Minute)
	return c
}

// Validate reports all faults of c, joined.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, name string, v any) {
		if !ok {
			errs = append(errs, fmt.Errorf("proxy: %s %v", name, v))
		}
	}
	check(c.MaxConnections >= 0, "max_connections", c.MaxConnections)
	check(c.MaxIdlePerEndpoint >= 0, "max_idle_per_endpoint", c.MaxIdlePerEndpoint)
	check(c.MaxAttempts >= 0, "max_attempts", c.MaxAttempts)
	for _, d := range []struct {
		name string
		v    time.Duration
	}{
		{"timeouts.connect", c.Timeouts.Connect}, {"timeouts.send", c.Timeouts.Send},
		{"timeouts.first_byte", c.Timeouts.FirstByte}, {"timeouts.between_events", c.Timeouts.BetweenEvents},
		{"timeouts.total", c.Timeouts.Total}, {"body_timeout", c.BodyTimeout},
		{"client_write_timeout", c.ClientWriteTimeout}, {"idle_timeout", c.IdleTimeout},
		{"drain_timeout", c.DrainTimeout}, {"heartbeat", c.Heartbeat},
	} {
		check(d.v >= 0, d.name, d.v)
	}
	return errors.Join(errs...)
}
