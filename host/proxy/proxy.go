package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Proxy serves clients. Make it with New, run it with Run.
type Proxy struct {
	cfg    Config
	router Router
	log    *slog.Logger

	bodies      bodyPool
	streams     sync.Pool // of *stream
	headReaders sync.Pool // of *headReader

	upstreams upstreams
	budget    budget
	count     counters

	started  atomic.Bool
	draining atomic.Bool
	ln       atomic.Pointer[listener]
}

// New returns a proxy that uses r. It starts no goroutine.
func New(cfg Config, r Router, log *slog.Logger) (*Proxy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if r == nil || log == nil {
		return nil, errors.New("proxy: no router or logger")
	}
	p := &Proxy{cfg: cfg.withDefaults(), router: r, log: log}
	p.upstreams = upstreams{cfg: &p.cfg, count: &p.count, m: map[upstreamKey]*upstream{}}
	p.budget.fill()
	return p, nil
}

// Run serves connections of ln until ctx ends, then takes no more, waits up to
// DrainTimeout for the requests in progress, ends what is left with an error
// event, and returns when everything it started has ended. It closes ln. It can
// be called once.
func (p *Proxy) Run(ctx context.Context, ln net.Listener) error {
	if !p.started.CompareAndSwap(false, true) {
		return errors.New("proxy: Run called twice")
	}
	w, err := newWatcher()
	if err != nil {
		ln.Close()
		return err
	}
	l := newListener(ln, w, &p.cfg)
	p.upstreams.w = w
	p.ln.Store(l)

	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(w.run)
	wg.Go(func() { p.sweep(done) })

	srv := p.server()
	served := make(chan error, 1)
	wg.Go(func() {
		if p.cfg.TLS != nil {
			served <- srv.Serve(tls.NewListener(l, p.cfg.TLS))
			return
		}
		served <- srv.Serve(l)
	})
	select {
	case err = <-served:
		err = fmt.Errorf("proxy: serve: %w", err)
	case <-ctx.Done():
	}
	p.drain(srv, l)
	close(done)
	p.upstreams.close()
	w.close()
	wg.Wait()
	return err
}

// sweep closes idle connections once a second.
func (p *Proxy) sweep(done <-chan struct{}) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			p.upstreams.sweep(now)
		case <-done:
			return
		}
	}
}

// cutGrace is how long streams may take to send their error event after the drain.
const cutGrace = 2 * time.Second

// drain waits for all requests, then ends those that are left.
func (p *Proxy) drain(srv *fasthttp.Server, l *listener) {
	p.draining.Store(true)
	l.Close()
	if p.settle(srv, p.cfg.DrainTimeout) {
		return
	}
	p.log.Warn("drain timed out", "in_flight", p.count.inFlight.Load())
	for _, c := range l.conns() {
		c.stop(stopCut)
	}
	if p.settle(srv, cutGrace) {
		return
	}
	for _, c := range l.conns() {
		c.cut()
	}
	p.settle(srv, cutGrace)
}

// settle waits until no connection is served. It returns false if that takes longer
// than within.
func (p *Proxy) settle(srv *fasthttp.Server, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if srv.ShutdownWithContext(ctx) != nil && ctx.Err() != nil {
		return false
	}
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for p.count.inFlight.Load() > 0 { // hijacked connections
		select {
		case <-t.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// server returns the client-facing server.
func (p *Proxy) server() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:       p.handle,
		ErrorHandler:  p.badRequest,
		ExpectHandler: p.expect,
		// Bodies are read by readBody, which has its own limit. fasthttp reads
		// this many bytes before it calls the handler: with one, clients are
		// authenticated before their body is read, and no stream keeps 8 KB of it.
		StreamRequestBody:  true,
		MaxRequestBodySize: 1,
		ReadBufferSize:     16 << 10, // the limit of a request's head
		WriteBufferSize:    4 << 10,
		ReadTimeout:        p.cfg.BodyTimeout,
		IdleTimeout:        p.cfg.BodyTimeout,
		Concurrency:        p.cfg.MaxConnections,

		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		SecureErrorLogMessage:        true,
		Logger:                       silent{},
	}
}

// silent drops fasthttp's messages: they are about single connections, and counters
// have what they report.
type silent struct{}

func (silent) Printf(string, ...any) {}

// budget limits retries to a share of the requests, so that retries do not load a
// failing fleet further.
type budget struct{ fifths atomic.Int64 }

// A request earns a fifth of a retry (20 %). The burst is how many retries are
// available after a quiet time: about the requests in progress of one engine.
const (
	retryCost   = 5
	retryBurst  = 64
	budgetLimit = retryBurst * retryCost
)

func (b *budget) fill() { b.fifths.Store(budgetLimit) }

func (b *budget) earn() {
	if b.fifths.Load() < budgetLimit {
		b.fifths.Add(1)
	}
}

func (b *budget) spend() bool {
	if b.fifths.Add(-retryCost) >= 0 {
		return true
	}
	b.refund()
	return false
}

// refund gives back what spend took.
func (b *budget) refund() { b.fifths.Add(retryCost) }
