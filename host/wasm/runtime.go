package wasm

import (
	"context"
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
	// CacheDir keeps compiled code; "" = in memory only. What is in it is
	// executed: it is made with mode 0700 and refused when others may write.
	CacheDir string
	// Modules a guest may import, if its plugin is granted them.
	Modules []*HostModule
	// Log gets faults and quarantines; nil = nothing.
	Log *slog.Logger
}

// Runtime is one trust domain of plugins. It is safe for concurrent use.
type Runtime struct {
	rt      wazero.Runtime
	cache   wazero.CompilationCache
	modules []*HostModule // [0] is WASI
	log     *slog.Logger
	board   board
	wake    chan struct{} // cap 1: a plugin has something to mend

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
	cache, err := openCache(cfg.CacheDir)
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		cache: cache, log: log,
		board:   board{cols: map[string]*published{}},
		wake:    make(chan struct{}, 1),
		plugins: map[*Plugin]struct{}{},
		rt: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
			WithCoreFeatures(api.CoreFeaturesV2).
			WithCompilationCache(cache).
			WithMemoryLimitPages(maxPages)),
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

func openCache(dir string) (wazero.CompilationCache, error) {
	if dir == "" {
		return wazero.NewCompilationCache(), nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("wasm: compile cache: %w", err)
	}
	st, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("wasm: compile cache: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("wasm: compile cache %s has mode %#o, want 0700: what is in it is executed", dir, st.Mode().Perm())
	}
	c, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, fmt.Errorf("wasm: compile cache: %w", err)
	}
	return c, nil
}

// Close ends the engine. Every plugin must be closed before.
func (r *Runtime) Close() error {
	ctx := context.Background()
	return errors.Join(r.rt.Close(ctx), r.cache.Close(ctx))
}

// Run makes instances that faults have cost, and probes plugins in
// quarantine, until ctx ends. Without it plugins run out of instances.
func (r *Runtime) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := r.Mend(ctx, time.Now())
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

// Mend does what is to be done at now, and returns when there will be more to
// do if no fault comes before; zero = never. Run calls it.
func (r *Runtime) Mend(ctx context.Context, now time.Time) (next time.Time) {
	r.mu.Lock()
	all := make([]*Plugin, 0, len(r.plugins))
	for p := range r.plugins {
		all = append(all, p)
	}
	r.mu.Unlock()
	for _, p := range all {
		if ctx.Err() != nil {
			return next
		}
		if t := p.mend(ctx, now); !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

func (r *Runtime) notify() {
	select {
	case r.wake <- struct{}{}:
	default: // already due
	}
}
