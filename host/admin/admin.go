// Package admin serves the operators' API on a listener of its own: health,
// metrics, explanations, endpoints, reload, plugins, policy, keys and profiles. It
// also has the client of that API.
//
// The routes are one table (routes.go), from which the handlers, SCOPES.md, the
// OpenAPI document and the client come. What the API shows and changes is behind
// small interfaces (sources.go). Responses are JSON; errors have the shape
// {"error":{"message":…,"code":…}}.
//
// Every path except the health checks is protected three times. The Host header
// must name the listener: a web page whose name resolves to 127.0.0.1 (DNS
// rebinding) sends its own name. The request must carry the admin token, an API
// key or a JWT, which no web page has. And the sender must hold the scope of the
// path and satisfy the policy, if one is loaded; the admin token satisfies both.
//
// The audit log records each change before and after it, and refusals, profiles
// and reads of another tenant's requests. It does not record other reads. API keys
// and tokens that appear in a request, wherever they do, are neither recorded,
// logged nor sent back.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/secret"
)

// Config is the configuration of a Server.
type Config struct {
	// Access returns the access by the rules in force. nil = Token and Hosts apply for
	// the lifetime of the server.
	Access func() *Access
	Token  string // at least 8 characters

	// Hosts are further names the Host header may have, beside loopback names and
	// addresses and the address that was connected to.
	Hosts []string
	// LoopbackMetrics serves /metrics without a credential to loopback clients.
	LoopbackMetrics bool
	// MaxBody bounds request bodies in bytes; 0 = 64 MiB, the default of the clients'
	// listener, so that every request can be explained.
	MaxBody int64

	// The paths of a nil source are answered with 404.
	Explainer Explainer
	Status    Status // nil = always ready
	Reloader  Reloader
	Plugins   Plugins
	Keys      Keys
	Policies  Policies
	Scaler    Scaler
	Holder    Holder
	Metrics   http.Handler
	Log       *slog.Logger // nil = discard

	Identity   Identifier // nil = only the token is accepted
	Authorizer Authorizer // nil = scopes alone decide
	Audit      Recorder   // nil = nothing is recorded
}

func (c *Config) withDefaults() {
	if c.MaxBody == 0 {
		c.MaxBody = 64 << 20
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = secret.Logger(c.Log)
}

// Validate reports all faults of c.
func (c *Config) Validate() error {
	var all []error
	if c.Access == nil {
		if _, err := NewAccess(c.Token, c.Hosts); err != nil {
			all = append(all, err)
		}
	}
	if c.MaxBody < 0 {
		all = append(all, fmt.Errorf("admin: max body %d", c.MaxBody))
	}
	return errors.Join(all...)
}

// Server serves the admin API.
type Server struct {
	cfg    Config
	access func() *Access
	http   *http.Server
	now    func() time.Time
	open   bool // no credential is needed, as for ServeMetrics

	strangers, known budget // of refusals in the audit log
}

// New returns a Server; Serve starts it.
func New(cfg Config) (*Server, error) {
	cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, now: time.Now, access: cfg.Access}
	if s.access == nil {
		fixed, err := NewAccess(cfg.Token, cfg.Hosts)
		if err != nil {
			return nil, err
		}
		s.access = func() *Access { return fixed }
	}
	s.strangers.limit, s.known.limit = strangersPerMinute, knownPerMinute
	s.http = newHTTP(s.Handler(), cfg.Log)
	return s, nil
}

// newHTTP returns a server with bounds on heads and time. Some responses take long (a
// CPU profile, a reload), so writing has a wide bound.
func newHTTP(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 5 * time.Minute,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Serve serves l until ctx ends, then gives requests one second to finish. It
// closes l. It returns nil after ctx ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return serve(ctx, s.http, l) }

// ServeMetrics serves only /metrics, /healthz and /readyz on l, without a
// credential, until ctx ends: for a scraper that must not have admin rights. status
// may be nil. It closes l.
func ServeMetrics(ctx context.Context, l net.Listener, metrics http.Handler, status Status, log *slog.Logger) error {
	cfg := Config{Metrics: metrics, Status: status, Log: log}
	cfg.withDefaults()
	s := &Server{cfg: cfg, open: true}
	mux := http.NewServeMux()
	s.register(mux, func(rt *Route) bool { return rt.Scope == "" || rt.Path == "/metrics" })
	mux.HandleFunc("/", notFound)
	return serve(ctx, newHTTP(mux, cfg.Log), l)
}

func serve(ctx context.Context, srv *http.Server, l net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("admin: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if srv.Shutdown(grace) != nil {
		srv.Close()
	}
	<-ended
	return nil
}
