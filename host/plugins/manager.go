// Package plugins owns the plugins of a router: it loads the modules that a
// configuration names, stores those that are pushed, watches a folder for those
// that are saved there, and implements the interfaces of the scheduler, the
// autoscaler and the readers of engines by plugins.
//
// A Manager lives as long as the process. A Set is the plugins of one revision of
// the rules: Manager.Plan makes it, everything that can be refused is refused
// there, and the revision that owns it calls Release when its last request has
// ended.
package plugins

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/plugincheck"
	"github.com/kvasir-router/kvasir/host/plugstore"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// Rules are the rules of the router, of which a Set is a part. Its methods may be
// called concurrently.
type Rules interface {
	// Current returns the plugins of the revision in force and its number. The caller
	// calls release once; the set stays open until then.
	Current() (set *Set, revision uint64, release func())
	// Apply plans a revision with change and puts it in force: Plan with change, then
	// change.Commit, then the swap. On error nothing has changed. The set is that of
	// the revision in force.
	Apply(change *Change) (set *Set, revision uint64, err error)
}

// Options are the dependencies and settings of a Manager.
type Options struct {
	StateDir string // holds the stored modules and the compiled code
	Dir      string // the watched folder, "" = none
	// CompileChild is the command line of a program that compiles plugins; nil =
	// they are compiled in this process.
	CompileChild []string

	Log       *slog.Logger
	Now       func() time.Time
	Endpoints *endpoint.Store // what outcomes refer to
	Rules     Rules

	// Failed is called with a change of the watched folder that was refused.
	Failed func(err error)
	// Note records a change by the watched folder in the audit log; detail alternates
	// names and values.
	Note func(verb, object string, err error, detail ...string)
}

// Manager owns the loaded plugins, the store of pushed modules, the watched folder
// and the shadows. Its methods may be called concurrently.
type Manager struct {
	log       *slog.Logger
	now       func() time.Time
	endpoints *endpoint.Store
	rules     Rules
	failed    func(error)
	note      func(verb, object string, err error, detail ...string)

	trials  trials
	table   *table
	store   *plugstore.Store
	folder  *folder
	metrics *hostmod.Metrics
	offPath *offPath

	change sync.Mutex // held through a change of the store's or the folder's modules
}

// New opens the store of modules and creates the engine of plugins. It loads and starts
// nothing. The caller calls Close after the last Set was released.
func New(opt Options) (*Manager, error) {
	m := &Manager{log: opt.Log, now: opt.Now, endpoints: opt.Endpoints, rules: opt.Rules, failed: opt.Failed,
		note:   opt.Note,
		folder: newFolder(opt.Dir), metrics: hostmod.NewMetrics(), trials: trials{by: map[string]bool{}}}
	var err error
	if m.store, err = plugstore.Open(filepath.Join(opt.StateDir, "plugins")); err != nil {
		return nil, err
	}
	for _, err := range m.store.Problems() {
		m.log.Warn("plugin store", "err", err)
	}
	r, err := wasm.New(context.Background(), wasm.Config{
		CacheDir: filepath.Join(opt.StateDir, "wasm-cache"), Log: opt.Log, Child: opt.CompileChild,
		Check: plugincheck.Verify, Quarantined: m.quarantined,
		Modules: []*wasm.HostModule{hostmod.Log(opt.Log), hostmod.KV(hostmod.NewSpaces(0)), m.metrics.Module()},
	})
	if err != nil {
		return nil, err
	}
	m.table = newTable(r)
	m.offPath = newOffPath(m)
	return m, nil
}

// Run maintains plugins, passes outcomes to them and watches the folder until ctx ends
// or one of these tasks fails.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	actors := []func(context.Context) error{m.table.runtime.Run, m.table.run, m.offPath.run, m.watchFolder}
	errs := make([]error, len(actors))
	for i, run := range actors {
		wg.Go(func() {
			if errs[i] = run(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return context.Cause(ctx)
}

// quarantined stores why a module went into quarantine, "" = it has recovered.
func (m *Manager) quarantined(digest, why string) {
	if err := m.store.Quarantine(digest, why); err != nil {
		m.log.Error("plugin store", "digest", digest, "err", err)
	}
}

// Adopted is called when the revision of set has come into force.
func (m *Manager) Adopted(set *Set) {
	m.offPath.wanted.Store(len(set.observers) > 0)
	l := &set.cfg.PluginStore
	m.store.SetLimits(plugstore.Limits{Bytes: int64(l.Bytes), PusherBytes: int64(l.PusherBytes)})
}

// Close ends the shadows and closes everything, after the last Set was released
// and Run has returned.
func (m *Manager) Close() error {
	m.offPath.shadows.close()
	return m.table.close()
}
