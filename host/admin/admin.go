// Package admin serves the operators' API on a listener of its own: health,
// metrics, explanations, endpoints, reload, plugins, keys and profiles.
//
// It knows nothing of routing: what it shows comes from small interfaces that
// the host implements. Answers are JSON; errors have the shape
// {"error":{"message":…,"code":…}}.
//
// Three guards stand before every path but the health checks. A request must
// name the listener by an expected host: a web page that made its own name
// resolve to 127.0.0.1 (DNS rebinding) names itself. It must carry the admin
// token, an API key or a JWT, which no web page has. And who it names must hold
// the scope of the path (and, where a policy is loaded, satisfy it); the admin
// token holds all.
//
// What changes something stands in the audit log before and after, and so do
// refusals, profiles and looks at another tenant's requests. Plain reads do not.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/secret"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// Explainer tells why requests go where they go.
type Explainer interface {
	// Explain returns the decision about a tenant's request and the tenant;
	// ErrNotFound if none is kept. An empty tenant means any: an
	// *AmbiguousError if several used the request id.
	Explain(ctx context.Context, tenant, requestID string) (decision *scheduler.Explanation, owner string, err error)
	// DryRun decides about a request without sending it.
	DryRun(ctx context.Context, q *DryRun) (*scheduler.Explanation, error)
}

// Status tells what the router does.
type Status interface {
	// Ready returns nil if requests are served, else why not, in words for an
	// operator without secrets: it is shown without a token.
	Ready() error
	Status(ctx context.Context) (*RouterStatus, error)
	Endpoints(ctx context.Context) ([]Endpoint, error)
}

// Reloader puts changed rules in force.
type Reloader interface {
	// Reload returns a description of what is in force now. On error nothing has
	// changed; a fault of the configuration wraps ErrRefused.
	Reload(ctx context.Context) (*ReloadResult, error)
}

// Plugins manages placement plugins. What it refuses wraps ErrRefused, names it
// does not know ErrNotFound.
type Plugins interface {
	Plugins(ctx context.Context) ([]Plugin, error)
	// Push stores a module under a name and, if asked, places the next request
	// by it. who pushes is kept with it. code is the callee's.
	Push(ctx context.Context, name string, code []byte, activate bool, who string) (*PluginChange, error)
	// Shadow stores a module and has it score beside the active one of its name,
	// which goes on placing. It replaces the shadow before. who pushes is kept with
	// it. code is the callee's.
	Shadow(ctx context.Context, name string, code []byte, who string) (*PluginChange, error)
	// EndShadow ends the shadow of a name.
	EndShadow(ctx context.Context, name string) (*PluginChange, error)
	// Activate puts a version in force that was pushed before.
	Activate(ctx context.Context, name, digest string) (*PluginChange, error)
	// Rollback activates the version that was active before.
	Rollback(ctx context.Context, name string) (*PluginChange, error)
	// Deactivate leaves no stored version active: the configured file or the
	// shipped plugin of that name is used again.
	Deactivate(ctx context.Context, name string) (*PluginChange, error)
}

// Config is the configuration of a Server.
type Config struct {
	Token string // at least 8 characters

	// Hosts are further names the Host header may have, beside loopback names and
	// addresses and the address that was connected to.
	Hosts []string
	// LoopbackMetrics serves /metrics without a token to loopback clients.
	LoopbackMetrics bool
	// MaxBody bounds request bodies in bytes; 0 = 64 MiB, the default of the data
	// path, so that what can be sent can be explained.
	MaxBody int64

	Explainer Explainer    // nil = those paths are 404
	Status    Status       // nil = always ready; its paths are 404
	Reloader  Reloader     // nil = its path is 404
	Plugins   Plugins      // nil = its paths are 404
	Keys      Keys         // nil = its paths are 404
	Policies  Policies     // nil = its paths are 404
	Scaler    Scaler       // nil: no autoscaler
	Holder    Holder       // nil: endpoints cannot be taken out by hand
	Metrics   http.Handler // nil = its path is 404
	Log       *slog.Logger // nil = silent

	Identity   Identifier // nil = the token alone is accepted
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

// minToken is short enough for a token typed by hand in a test and long enough
// not to be empty by mistake.
const minToken = 8

// Validate reports all faults of c.
func (c *Config) Validate() error {
	var all []error
	if len(c.Token) < minToken {
		all = append(all, fmt.Errorf("admin: token is shorter than %d characters", minToken))
	}
	if strings.ContainsAny(c.Token, " \t\r\n") {
		all = append(all, errors.New("admin: token has white space"))
	}
	if c.MaxBody < 0 {
		all = append(all, fmt.Errorf("admin: max body %d", c.MaxBody))
	}
	for _, h := range c.Hosts {
		if h == "" || strings.ContainsAny(h, "/ ") {
			all = append(all, fmt.Errorf("admin: bad host name %q", h))
		}
	}
	return errors.Join(all...)
}

// Server serves the admin API.
type Server struct {
	cfg   Config
	guard guard
	http  *http.Server
	now   func() time.Time
	open  bool // nobody needs a credential: what ServeMetrics serves

	strangers, known budget // of refusals in the audit log
}

// New returns a Server; Serve starts it.
func New(cfg Config) (*Server, error) {
	cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, guard: newGuard(&cfg), now: time.Now}
	s.strangers.limit, s.known.limit = strangersPerMinute, knownPerMinute
	s.http = newHTTP(s.Handler(), cfg.Log)
	return s, nil
}

// newHTTP returns a server with bounded heads and patience. Answers may take
// long (a CPU profile, a reload), so writing has a wide bound.
func newHTTP(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 5 * time.Minute,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Serve serves l until ctx ends, then lets requests finish for a second. It
// closes l. It returns nil after ctx ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return serve(ctx, s.http, l) }

// ServeMetrics serves only /metrics, /healthz and /readyz on l, without a token,
// until ctx ends: for a scraper that must not have admin rights. status may be
// nil. It closes l.
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
