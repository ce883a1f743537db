// Package host puts the parts together. It owns every long-lived value and
// every goroutine; the packages below it start none on their own.
//
// There are two kinds of value. State (endpoints, index, counters) lives as
// long as the process. Rules (models, pools, profiles, keys) form a generation,
// which is built as a whole, checked, and swapped behind one pointer.
package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/fleet"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/internal/secret"
	"github.com/kvasir-router/kvasir/host/internal/snapshot"
	"github.com/kvasir-router/kvasir/host/isolation"
	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/plugins"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/queue"
	"github.com/kvasir-router/kvasir/host/route"
	"github.com/kvasir-router/kvasir/host/scaling"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/status"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
	"github.com/kvasir-router/kvasir/host/telemetry/decisions"
)

// Options are what does not stand in the configuration file.
type Options struct {
	Log     *slog.Logger // nil = silent
	Version string

	// CompileChild is the command line of a program that compiles plugins
	// (wasm.ServeChild, with the modules of hostmod); nil = they are compiled in
	// this process, and requests wait for it.
	CompileChild []string

	// ScaleEvery is the period of the autoscaler, 0 = 5 s. Demonstrations and
	// tests shorten it.
	ScaleEvery time.Duration
}

// Host is a running router. Make it with New, run it with Run.
type Host struct {
	opt     Options
	log     *slog.Logger
	now     func() time.Time
	started time.Time
	cfg     *config.Config // as the process was started; what cannot be reloaded is read from here

	saltKey    []byte
	pepper     []byte
	adminToken string
	audit      *audit.Log

	decisions   *decisions.Log // nil without one
	decisionLog *route.Log     // writes to decisions; nil without one

	store     *endpoint.Store
	index     *kvindex.Index
	predictor *kvindex.Predictor
	history   *isolation.File
	assumed   *kvindex.Assumed
	state     *scheduler.State
	identity  *identity.Store
	fleet     *fleet.Fleet
	admission *fleet.Admission
	detector  *fleet.Detector
	discovery *fleet.Discovery

	plugins  *plugins.Manager
	queue    queue.Queue
	policies *policies
	scaling  *scaling.Manager

	registry *telemetry.Registry
	metrics  *telemetry.Metrics
	proxy    *proxy.Proxy
	admin    *admin.Server

	listener, adminListener, metricsListener net.Listener

	reloadMu     sync.Mutex // one reload at a time
	reloadErrors atomic.Uint64
	rules        snapshot.Holder[generation]

	readyOnce sync.Once
	readyCh   chan struct{}
	status    *status.Reporter
}

// New builds a router, opens its listeners and starts nothing. On error all
// that was opened is closed.
func New(cfg *config.Config, opt Options) (_ *Host, err error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{opt: opt, log: secret.Logger(opt.Log), now: time.Now, cfg: cfg, readyCh: make(chan struct{})}
	h.started = h.now()
	h.policies = &policies{h: h}
	defer func() {
		if err != nil {
			h.closeListeners()
			if h.audit != nil {
				h.audit.Close()
			}
			err = errors.Join(err, h.closeRules())
		}
	}()
	if err := h.openState(); err != nil {
		return nil, err
	}
	h.store = endpoint.NewStore()
	if err := h.openPlugins(); err != nil {
		return nil, err
	}
	if err := h.openStores(); err != nil {
		return nil, err
	}
	for _, f := range cfg.Absent {
		h.log.Error("a plugin's file is not there", "at", f.String())
	}
	g, err := h.build(cfg, nil, 1, nil)
	if err != nil {
		return nil, err
	}
	if err := h.adopt(g); err != nil {
		return nil, err
	}
	if err := h.identity.RestoreUses(KeyUsePath(cfg.StateDir)); err != nil {
		h.log.Warn("last uses of keys", "err", err)
	}
	h.plugins.LookFolder(false)
	if err := h.openServers(); err != nil {
		return nil, err
	}
	return h, nil
}

// openState reads what survives restarts, and makes it at the first start.
func (h *Host) openState() (err error) {
	dir := h.cfg.StateDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("host: state_dir: %w", err)
	}
	if h.saltKey, err = policy.LoadOrCreateKey(filepath.Join(dir, saltKeyFile)); err != nil {
		return err
	}
	if h.adminToken, err = adminToken(h.cfg.Admin.TokenFile, dir); err != nil {
		return err
	}
	if err := h.openAudit(h.cfg); err != nil {
		return err
	}
	if err := h.openDecisions(&h.cfg.Telemetry.DecisionLog); err != nil {
		return err
	}
	if h.pepper, err = KeyPepper(dir); err != nil {
		return err
	}
	h.identity, err = identity.NewStore(identity.Config{Pepper: h.pepper})
	return err
}

// openPlugins makes the engine that plugins run in.
func (h *Host) openPlugins() (err error) {
	h.plugins, err = plugins.New(plugins.Options{
		StateDir: h.cfg.StateDir, Dir: h.cfg.PluginDir, CompileChild: h.opt.CompileChild,
		Log: h.log, Now: func() time.Time { return h.now() }, Endpoints: h.store, Rules: pluginRules{h}, Failed: h.reloadFailed, Note: h.note,
	})
	return err
}

// tierWeights is what a token found in each tier is worth beside one in GPU
// memory: restoring it costs time. Until restore costs are measured, host memory
// counts 0.8 and disk 0.5, the order of the tiers' bandwidths beside prefill.
var tierWeights = []float32{1, 0.8, 0.5}

// openStores makes the state that outlives generations.
func (h *Host) openStores() error {
	l := &h.cfg.Limits
	holders := kvindex.HolderOf(config.MaxEndpoints, 0)
	h.index = kvindex.New(kvindex.Config{Holders: holders, BudgetBytes: int64(l.Index) * indexShare / 16})
	h.predictor = kvindex.NewPredictor(kvindex.Config{Holders: holders, BudgetBytes: int64(l.Index) * predictorShare / 16})
	h.assumed = kvindex.NewAssumed(kvindex.AssumedConfig{Holders: holders, BudgetBytes: int64(l.Index) * assumedShare / 16})
	h.history = isolation.Open(filepath.Join(h.cfg.StateDir, historyFile), min(maxHistory, int64(l.Index)/8), h.log)
	h.registry = telemetry.New()
	h.metrics = telemetry.NewMetrics(h.registry)
	h.openFleet()
	h.state = scheduler.NewState(scheduler.StateConfig{
		Store: h.store, Observer: h, TraceBytes: int(l.Decisions),
		Locality: scheduler.Locality{
			Index: tieredIndex{h.index}, Predictor: h.predictor, Assumed: h.assumed, History: h.history.History, Holders: holders, Tiers: tierWeights,
			HolderOf: func(id endpoint.ID, tier int) int { return kvindex.HolderOf(int(id), tier) },
		},
	})
	h.collect()
	return nil
}

// tieredIndex is the index as the scheduler sees it: what a tier holds is
// counted from the end of the faster tiers.
type tieredIndex struct{ x *kvindex.Index }

// Match implements scheduler.Matcher.
func (t tieredIndex) Match(hashes, candidates []uint64, depth []uint32) {
	t.x.MatchTiers(hashes, candidates, depth)
}

// The index budget in sixteenths: predictions are two indexes that take turns,
// each of at most predictorShare; endpoints without events have assumedShare.
const (
	indexShare     = 12
	predictorShare = 1
	assumedShare   = 2
)

// historyFile is the history of sent prompts in the state directory.
const historyFile = "prompts.history"

// maxHistory is its memory at most, beside the index: 16 Mi blocks, those of 256 Mi
// tokens.
const maxHistory = 32 << 20

// openServers binds the listeners.
func (h *Host) openServers() (err error) {
	c := h.cfg
	pc := proxy.Config{}
	if pc.TLS, err = serverTLS(&c.Listen.TLS); err != nil {
		return err
	}
	if h.proxy, err = proxy.New(pc, route.New(route.Config{
		Rules: routeRules{h}, Queue: &h.queue, Room: h.scaling.Room(), Log: h.decisionLog, Now: func() time.Time { return h.now() },
	}), h.log); err != nil {
		return err
	}
	h.openStatus()
	h.admin, err = admin.New(admin.Config{
		Token: h.adminToken, Hosts: c.Admin.Hosts, MaxBody: int64(c.Listen.MaxBody),
		Explainer: h.explainer(), Status: h.status, Reloader: reloader{h}, Plugins: h.plugins, Keys: keyAdmin{h}, Policies: policyAdmin{h}, Scaler: scaleAdmin{h}, Holder: holder{h}, Authorizer: policyAuthorizer{h},
		Metrics: h.registry.Handler(), Log: h.log, Identity: identifier{h}, Audit: h.audit,
	})
	if err != nil {
		return err
	}
	listen := func(addr string) net.Listener {
		if err != nil || addr == "" {
			return nil
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err != nil {
			err = fmt.Errorf("host: %w", err)
			return nil
		}
		return l
	}
	h.listener, h.adminListener, h.metricsListener = listen(c.Listen.HTTP), listen(c.Admin.HTTP), listen(c.Admin.Metrics)
	return err
}

// identifier verifies credentials of operators by the rules in force.
type identifier struct{ h *Host }

// Verify implements admin.Identifier.
func (i identifier) Verify(c *identity.Credentials) (*identity.Principal, error) {
	return i.h.credentials().Verify(c)
}

// credentials returns the set in force.
func (h *Host) credentials() *identity.Set {
	l := h.rules.Acquire()
	defer l.Release()
	return l.Value().identity
}

func clientHints(c *config.ClientHints) proxy.Hints {
	h := proxy.Hints{Session: c.Session, Priority: c.Priority}
	for _, label := range slices.Sorted(maps.Keys(c.Labels)) {
		h.Labels = append(h.Labels, proxy.HintLabel{Label: label, Header: c.Labels[label]})
	}
	return h
}

func serverTLS(t *config.TLS) (*tls.Config, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("host: listen.tls: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if t.ClientCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("host: listen.tls: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("host: listen.tls: no certificate in %s", t.ClientCAFile)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c, nil
}

// closeRules gives up the rules in force and all plugins, once nothing uses
// them any more.
func (h *Host) closeRules() error {
	h.rules.Swap(nil, nil)
	if h.plugins == nil {
		return nil
	}
	return h.plugins.Close()
}

func (h *Host) closeListeners() {
	for _, l := range []net.Listener{h.listener, h.adminListener, h.metricsListener} {
		if l != nil {
			l.Close()
		}
	}
}

// Addr is where clients connect, host:port.
func (h *Host) Addr() string { return h.listener.Addr().String() }

// AdminAddr is where operators connect, host:port.
func (h *Host) AdminAddr() string { return h.adminListener.Addr().String() }

// AdminToken is what operators show.
func (h *Host) AdminToken() string { return h.adminToken }

// Ready is closed once requests are served: every endpoint was looked at once.
func (h *Host) Ready() <-chan struct{} { return h.readyCh }

// Run serves until ctx ends, then drains streams and returns when everything it
// started has ended. Each value of reload (may be nil) reloads the rules.
func (h *Host) Run(ctx context.Context, reload <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)                          // the first failure
	back, stop := context.WithCancel(context.Background()) // outlives the drain
	defer stop()
	var wg, background sync.WaitGroup
	actor := func(wg *sync.WaitGroup, run func() error) {
		wg.Go(func() {
			if err := run(); err != nil && !errors.Is(err, context.Canceled) {
				select {
				case failed <- err:
				default: // another one was first
				}
				cancel()
			}
		})
	}
	actor(&background, func() error { return h.fleet.Run(back) })
	actor(&background, func() error { return h.housekeep(back) })
	actor(&background, func() error { return h.history.Run(back) })
	actor(&background, func() error { return h.scaling.Run(back) })
	actor(&background, func() error { return h.discovery.Run(back) })
	actor(&background, func() error { return h.plugins.Run(back) })
	actor(&background, func() error { return h.watchFiles(back, reload) })
	actor(&background, func() error { return h.policies.watch(back) })
	actor(&background, func() error { return h.checkPrompts(back) })
	actor(&background, func() error { return h.keepUses(back) })
	if h.decisions != nil {
		actor(&background, func() error { return h.decisions.Run(back) })
	}
	actor(&background, func() error { return h.refreshKeys(back) })
	actor(&background, func() error { return h.awaitReady(back) })
	actor(&background, func() error { return h.admin.Serve(back, h.adminListener) })
	if h.metricsListener != nil {
		actor(&background, func() error {
			return admin.ServeMetrics(back, h.metricsListener, h.registry.Handler(), h.status, h.log)
		})
	}
	h.note("router:start", "router", nil, "version", h.opt.Version, "config", h.cfg.File)
	actor(&wg, func() error { return h.proxy.Run(ctx, h.listener) })
	h.log.Info("serving", "listen", h.Addr(), "admin", h.AdminAddr(), "admin_token_file", adminTokenPath(h.cfg.Admin.TokenFile, h.cfg.StateDir), "version", h.opt.Version)
	wg.Wait()
	stop()
	background.Wait()
	h.note("router:stop", "router", nil)
	h.audit.Close()
	if err := h.closeRules(); err != nil {
		h.log.Warn("plugins", "err", err)
	}
	select {
	case err := <-failed:
		return err
	default:
		h.log.Info("stopped")
		return nil
	}
}

// startWait bounds how long readiness waits for endpoints that do not answer.
const startWait = 10 * time.Second

// awaitReady closes Ready when every endpoint was looked at, or after
// startWait.
func (h *Host) awaitReady(ctx context.Context) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	late := time.NewTimer(startWait)
	defer late.Stop()
	for !h.fleet.AllReady() {
		select {
		case <-t.C:
			continue
		case <-late.C:
			h.log.Warn("serving although some endpoints are not ready", "waited", startWait)
		case <-ctx.Done():
			return ctx.Err()
		}
		break
	}
	h.readyOnce.Do(func() { close(h.readyCh) })
	return nil
}

// predictionTTL is how long a prediction outlives its request's first token, at
// most; at least half of it. An engine's event of a prefilled block arrives
// within a step, 10 to 100 ms; a second also covers a slow event stream.
const predictionTTL = 4 * time.Second

// maintainEvery is how often the index may compact itself, for at most
// maintainFor. More often would wake an idle process and gain little: a walk that
// asks for compaction is as good a few milliseconds later.
const (
	maintainEvery = 20 * time.Millisecond
	maintainFor   = 300 * time.Microsecond
)

// queueEvery is how often those who wait get a chance that no request's end gave
// them: an endpoint came, a cap was raised.
const queueEvery = 100 * time.Millisecond

// housekeep keeps the index in shape.
func (h *Host) housekeep(ctx context.Context) error {
	rotate := time.NewTicker(predictionTTL / 2)
	defer rotate.Stop()
	maintain := time.NewTicker(maintainEvery)
	defer maintain.Stop()
	epoch := time.NewTicker(time.Second)
	defer epoch.Stop()
	turn := time.NewTicker(queueEvery)
	defer turn.Stop()
	for {
		select {
		case <-rotate.C:
			h.predictor.Rotate()
			h.state.Refresh()
		case <-maintain.C:
			h.index.Maintain(maintainFor)
		case <-epoch.C:
			h.index.Tick()
		case <-turn.C:
			h.queue.Tick()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Observe implements scheduler.Observer.
func (h *Host) Observe(o *scheduler.Observation) {
	kind := o.Kind.String()
	h.metrics.Ended(&telemetry.Result{
		Route: kind, Status: o.Outcome.Status, Cause: o.Outcome.End.Cause(), TTFT: o.Outcome.TTFT, E2E: o.Outcome.E2E,
		HasUsage: o.Outcome.HasUsage, HasCached: o.Outcome.HasCached,
		PromptTokens: o.Outcome.PromptTokens, CachedTokens: o.Outcome.CachedTokens, OutTokens: o.Outcome.OutputTokens,
		PredictedTokens: o.PromptTokens, PredictedCached: o.PredictedCached, HasPrediction: o.PromptTokens > 0,
	})
	h.metrics.Placed(kind, o.PromptTokens, o.PredictedCached)
	h.queue.Wake(o.Pool)
	h.fleet.Observe(o)
	h.detector.Observe(o)
	h.scaling.Work().Observe(o)
	h.plugins.Observe(o)
}

var _ backend.Holding = (*kvindex.Index)(nil)
