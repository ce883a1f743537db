// Package host puts the parts together. It owns every long-lived value and
// every goroutine; the packages below it start none on their own.
//
// There are two kinds of value. State (endpoints, index, counters) lives as
// long as the process. Rules (keys, models, pools, profiles, plugins, policy) form
// a revision, which package rules plans, checks and swaps as a whole.
package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/fleet"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/internal/secret"
	"github.com/kvasir-router/kvasir/host/isolation"
	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/plugins"
	"github.com/kvasir-router/kvasir/host/policy/live"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/queue"
	"github.com/kvasir-router/kvasir/host/route"
	"github.com/kvasir-router/kvasir/host/rules"
	"github.com/kvasir-router/kvasir/host/scaling"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/statedir"
	"github.com/kvasir-router/kvasir/host/status"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
	"github.com/kvasir-router/kvasir/host/telemetry/decisions"
)

// Options are settings outside the configuration file.
type Options struct {
	Log *slog.Logger // nil = silent
	// LogLevel is the level of Log, which follows telemetry.log_level at reloads; nil =
	// the level stays.
	LogLevel *slog.LevelVar
	Version  string

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

	unlock  func() // of the state directory; nil = not locked
	saltKey []byte
	fresh   bool // saltKey was made by this process
	pepper  []byte
	audit   *audit.Log

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
	policies *live.Keeper
	scaling  *scaling.Manager

	registry *telemetry.Registry
	metrics  *telemetry.Metrics
	proxy    *proxy.Proxy
	admin    *admin.Server

	listener, adminListener, metricsListener net.Listener

	rules *rules.Manager

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
	h.rules = rules.New()
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
		h.log.Error("plugin file not found", "at", f.String())
	}
	if err := h.startRules(); err != nil {
		return nil, err
	}
	if err := h.identity.RestoreUses(statedir.KeyUsePath(cfg.StateDir)); err != nil {
		h.log.Warn("last uses of API keys not restored", "err", err)
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
	if err := statedir.Make(dir); err != nil {
		return err
	}
	if h.unlock, err = statedir.Lock(dir); err != nil {
		return err
	}
	if h.saltKey, h.fresh, err = statedir.SaltKey(dir); err != nil {
		return err
	}
	if err := h.openAudit(h.cfg); err != nil {
		return err
	}
	if err := h.openDecisions(&h.cfg.Telemetry.DecisionLog); err != nil {
		return err
	}
	if h.pepper, err = statedir.Pepper(dir); err != nil {
		return err
	}
	h.identity, err = identity.NewStore(identity.Config{Pepper: h.pepper})
	return err
}

// unlockState lets another router use the state directory.
func (h *Host) unlockState() {
	if h.unlock != nil {
		h.unlock()
		h.unlock = nil
	}
}

// openPlugins makes the engine that plugins run in.
func (h *Host) openPlugins() (err error) {
	h.plugins, err = plugins.New(plugins.Options{
		StateDir: h.cfg.StateDir, Dir: h.cfg.PluginDir, CompileChild: h.opt.CompileChild,
		Log: h.log, Now: h.clock, Endpoints: h.store, Rules: h.rules, Failed: h.rules.Failed, Note: h.note,
	})
	return err
}

// tierWeights is what a token found in each tier is worth beside one in GPU
// memory: restoring it costs time. Until restore costs are measured, host memory
// counts 0.8 and disk 0.5, the order of the tiers' bandwidths beside prefill.
var tierWeights = []float32{1, 0.8, 0.5}

// openStores makes the state that outlives revisions.
func (h *Host) openStores() error {
	l := &h.cfg.Limits
	holders := kvindex.HolderOf(config.MaxEndpoints, 0)
	h.index = kvindex.New(kvindex.Config{Holders: holders, BudgetBytes: int64(l.Index) * indexShare / 16})
	h.predictor = kvindex.NewPredictor(kvindex.Config{Holders: holders, BudgetBytes: int64(l.Index) * predictorShare / 16})
	h.assumed = kvindex.NewAssumed(kvindex.AssumedConfig{
		Holders: holders, BudgetBytes: int64(l.Index) * assumedShare / 16,
	})
	h.history = isolation.Open(filepath.Join(h.cfg.StateDir, historyFile), min(maxHistory, int64(l.Index)/8),
		h.fresh, h.log)
	h.registry = telemetry.New()
	h.metrics = telemetry.NewMetrics(h.registry)
	h.openFleet()
	h.state = scheduler.NewState(scheduler.StateConfig{
		Store: h.store, Observer: h, TraceBytes: int(l.Decisions), Contradicted: h.contradicted, Log: h.log,
		Locality: scheduler.Locality{
			Index: kvindex.Tiered{Index: h.index}, Predictor: h.predictor, Assumed: h.assumed, History: h.history.History,
			Holders: holders, Tiers: tierWeights,
			HolderOf: func(id endpoint.ID, tier int) int { return kvindex.HolderOf(int(id), tier) },
		},
	})
	h.collect()
	return nil
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
	pc := proxy.Config{
		BodyTimeout: c.Listen.BodyTimeout, ClientWriteTimeout: c.Listen.WriteTimeout, DrainTimeout: c.Limits.DrainTimeout,
	}
	if pc.TLS, err = c.Listen.TLS.Server(); err != nil {
		return err
	}
	if pc.TLS != nil {
		pc.TLS.Certificates, pc.TLS.GetCertificate = nil, h.certificate
	}
	if h.proxy, err = proxy.New(pc, route.New(route.Config{
		Rules: routeRules{h}, Queue: &h.queue, Room: h.scaling.Room(), Log: h.decisionLog, Now: h.clock,
	}), h.log); err != nil {
		return err
	}
	h.openStatus()
	h.admin, err = admin.New(admin.Config{
		Access: h.adminAccess, MaxBody: int64(c.Listen.MaxBody),
		Explainer: h.explainer(), Status: h.status, Reloader: rules.Reloader{Manager: h.rules}, Plugins: h.plugins,
		Keys: rules.Keys{Manager: h.rules}, Policies: h.policy(), Authorizer: h.policy(),
		Scaler: status.Scaler{Scaling: h.scaling}, Holder: status.Holder{HoldAll: h.fleet.Hold, State: h.state},
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
	return i.h.rules.Credentials().Verify(c)
}

// Reload reads the configuration file again and puts its rules in force.
func (h *Host) Reload() (*admin.ReloadResult, error) { return h.rules.Reload(true) }

// adminAccess returns the access to the operators' listener by the rules in force.
func (h *Host) adminAccess() *admin.Access {
	l := h.rules.Acquire()
	defer l.Release()
	return l.Value().Admin
}

// policy is the admin API's face of the policy.
func (h *Host) policy() live.Admin {
	return live.Admin{Keeper: h.policies, Rules: h.rules, Author: h.plugins.Author}
}

// startRules puts the first revision in force.
func (h *Host) startRules() error {
	h.policies = live.New(live.Options{StateDir: h.cfg.StateDir, Key: h.saltKey, Log: h.log, Now: h.clock})
	return h.rules.Start(h.ruleOptions())
}

func (h *Host) ruleOptions() rules.Options {
	return rules.Options{
		Boot: h.cfg, Log: h.log, Now: h.clock, Started: h.started,
		Identity: h.identity, Pepper: h.pepper, State: h.state, Plugins: h.plugins, Policies: h.policies,
		Fleet: h.fleet, Scaling: h.scaling, Note: h.note, LogLevel: h.opt.LogLevel,
		AdminToken: func(c *config.Config) (string, error) {
			return statedir.AdminToken(c.Admin.TokenFile, h.cfg.StateDir)
		},
	}
}

// certificate returns the certificate in force.
func (h *Host) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	l := h.rules.Acquire()
	defer l.Release()
	return l.Value().Certificate, nil
}

// clock is the time of h, which tests replace.
func (h *Host) clock() time.Time { return h.now() }

// closeRules gives up the rules in force, all plugins and the state directory,
// once nothing uses them.
func (h *Host) closeRules() error {
	defer h.unlockState()
	h.rules.Close()
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
func (h *Host) AdminToken() string { return h.adminAccess().Token() }

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
	actor(&background, func() error { return h.rules.Watch(back, reload) })
	actor(&background, func() error { return h.policies.Watch(back, h.rules, h.note) })
	actor(&background, func() error { return h.rules.CheckPrompts(back) })
	actor(&background, func() error { return h.rules.KeepUses(back, statedir.KeyUsePath(h.cfg.StateDir)) })
	if h.decisions != nil {
		actor(&background, func() error { return h.decisions.Run(back) })
	}
	actor(&background, func() error { return h.rules.RefreshTokens(back) })
	actor(&background, func() error { return h.awaitReady(back) })
	actor(&background, func() error { return h.admin.Serve(back, h.adminListener) })
	if h.metricsListener != nil {
		actor(&background, func() error {
			return admin.ServeMetrics(back, h.metricsListener, h.registry.Handler(), h.status, h.log)
		})
	}
	h.note("router:start", "router", nil, "version", h.opt.Version, "config", h.cfg.File)
	actor(&wg, func() error { return h.proxy.Run(ctx, h.listener) })
	h.log.Info("serving", "listen", h.Addr(), "admin", h.AdminAddr(), "version", h.opt.Version,
		"admin_token_file", statedir.AdminTokenPath(h.cfg.Admin.TokenFile, h.cfg.StateDir))
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
			if h.index.Empty() {
				maintain.Reset(time.Minute) // it is looked at again in a second
			} else {
				maintain.Reset(maintainEvery)
			}
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
		EarlierBlocks: o.EarlierBlocks,
	})
	h.metrics.Placed(kind, o.PromptTokens, o.PredictedCached)
	h.queue.Wake(o.Pool)
	h.detector.Observe(o, h.fleet.Observe(o))
	h.scaling.Work().Observe(o)
	h.plugins.Observe(o)
}

var _ backend.Holding = (*kvindex.Index)(nil)
