package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Config of a Runtime. The zero Config is valid.
type Config struct {
	// CacheDir holds compiled code; "" = in memory only. Its contents are executed: it
	// is created with mode 0700 and rejected if others have access.
	CacheDir string
	// Child is the command line of a program that calls ServeChild with the same
	// modules. It compiles and tries each module first. nil = this process does, which
	// delays its other work: for tools and tests.
	Child []string
	// Modules a guest may import, if its plugin is granted them.
	Modules []*HostModule
	// Check checks a separate copy of each plugin that is loaded with Options.Check;
	// nil = no check.
	Check func(context.Context, *Runtime, *Plugin) error
	// Quarantined is called with the fault when a plugin goes into quarantine, and with
	// "" when its faults have expired. Run calls it, off the request path. nil = no call.
	Quarantined func(digest, why string)
	// Log receives faults and quarantines; nil = no log.
	Log *slog.Logger
}

// Runtime is one trust domain of plugins. It is safe for concurrent use.
type Runtime struct {
	rt          wazero.Runtime
	cache       wazero.CompilationCache
	modules     []*HostModule // [0] is WASI
	check       func(context.Context, *Runtime, *Plugin) error
	quarantined func(digest, why string)
	log         *slog.Logger
	board       board
	wake        chan struct{} // cap 1: a plugin needs maintenance

	worker  *compileWorker // nil = modules are compiled in this process alone
	tempDir string         // a cache directory of this runtime alone, "" = none

	mu      sync.Mutex // guards plugins
	plugins map[*Plugin]struct{}
}

// New returns a runtime without plugins.
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, errors.New("wasm: plugins need a little-endian machine")
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{
		log:         log,
		check:       cfg.Check,
		quarantined: cfg.Quarantined,
		board:       board{cols: map[string]*published{}},
		wake:        make(chan struct{}, 1),
		plugins:     map[*Plugin]struct{}{},
	}
	if err := r.openEngine(ctx, cfg.CacheDir, cfg.Child); err != nil {
		return nil, err
	}
	wasi := wasiModule(func(plugin, text string) { log.Info("plugin output", "plugin", plugin, "text", text) })
	r.modules = append([]*HostModule{wasi}, cfg.Modules...)
	for i, m := range r.modules {
		if err := link(ctx, r.rt, m, i); err != nil {
			r.Close()
			return nil, fmt.Errorf("wasm: host module %q: %w", m.Name, err)
		}
	}
	return r, nil
}

// openEngine creates the engine with its compile cache. A child passes compiled code
// on in a directory, which is temporary if the caller names none.
func (r *Runtime) openEngine(ctx context.Context, dir string, command []string) (err error) {
	if len(command) > 0 {
		if dir == "" {
			if r.tempDir, err = os.MkdirTemp("", "kvasir-wasm"); err != nil {
				return fmt.Errorf("wasm: compile cache: %w", err)
			}
			dir = r.tempDir
		}
		r.worker = &compileWorker{command: command, cacheDir: dir, turn: make(chan struct{}, 1),
			accepted: map[[sha256.Size]byte]struct{}{}}
	}
	if r.cache, err = openCache(dir); err != nil {
		return errors.Join(err, r.removeTemp())
	}
	r.rt = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithCompilationCache(r.cache).
		WithMemoryLimitPages(maxPages))
	return nil
}

func (r *Runtime) removeTemp() error {
	if r.tempDir == "" {
		return nil
	}
	return os.RemoveAll(r.tempDir)
}

// Close closes the engine. Every plugin must be closed before.
func (r *Runtime) Close() error {
	if r.worker != nil {
		r.worker.close()
	}
	ctx := context.Background()
	return errors.Join(r.rt.Close(ctx), r.cache.Close(ctx), r.removeTemp())
}

// Run calls Maintain whenever it is due, until ctx ends. Without it plugins run out of
// instances.
func (r *Runtime) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := r.Maintain(ctx, time.Now())
		if next.IsZero() {
			next = time.Now().Add(time.Hour)
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-timer.C:
		}
	}
}

// Maintain replaces lost instances, probes plugins in quarantine that are due at now,
// and returns when it is due again if no fault happens before; zero = never.
func (r *Runtime) Maintain(ctx context.Context, now time.Time) (next time.Time) {
	r.mu.Lock()
	all := make([]*Plugin, 0, len(r.plugins))
	for p := range r.plugins {
		all = append(all, p)
	}
	r.mu.Unlock()
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, p := range all {
		if ctx.Err() != nil {
			return next
		}
		sooner(p.maintain(ctx, now))
	}
	if r.worker != nil {
		sooner(r.worker.maintain(now))
	}
	return next
}

func (r *Runtime) notify() {
	select {
	case r.wake <- struct{}{}:
	default: // already due
	}
}
