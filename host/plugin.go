package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/plugstore"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
	"github.com/kvasir-router/kvasir/plugins"
)

// Where a plugin's module came from.
const (
	fromStore   = "stored"  // pushed and activated
	fromFile    = "file"    // of the configuration
	fromShipped = "shipped" // with the router
)

// plugin is a loaded plugin. Generations that use the same module with the same
// settings share it.
type plugin struct {
	*wasm.Plugin
	key    pluginKey
	source string
	since  time.Time
	uses   int // generations that hold it; guarded by pluginTable.mu

	observed, unheard atomic.Uint64 // outcomes it was told of, and those it failed to take
}

// pluginKey is what makes two uses of a plugin the same.
type pluginKey struct {
	name, digest, config, grants string
	memory                       config.Size
}

// pluginTable holds the loaded plugins. A plugin is closed when no generation
// holds it, by run and not by the request that ended the last lease.
type pluginTable struct {
	runtime *wasm.Runtime
	loads   atomic.Uint64

	mu   sync.Mutex // guards all, dead and plugin.uses
	all  map[pluginKey]*plugin
	dead []*plugin
	wake chan struct{} // cap 1: dead has grown
}

func newPluginTable(r *wasm.Runtime) *pluginTable {
	return &pluginTable{runtime: r, all: map[pluginKey]*plugin{}, wake: make(chan struct{}, 1)}
}

// acquire returns the plugin of k, loaded from code if it is not there. The
// caller must release it.
func (t *pluginTable) acquire(k pluginKey, source string, code []byte, now time.Time) (*plugin, error) {
	t.mu.Lock()
	if p := t.all[k]; p != nil {
		p.uses++
		t.mu.Unlock()
		return p, nil
	}
	t.mu.Unlock()
	w, err := t.runtime.Load(context.Background(), code, k.options())
	if err != nil {
		return nil, fmt.Errorf("plugin %s (%s): %w", k.name, source, err)
	}
	t.loads.Add(1)
	p := &plugin{Plugin: w, key: k, source: source, since: now, uses: 1}
	t.mu.Lock()
	t.all[k] = p
	t.mu.Unlock()
	return p, nil
}

func (k *pluginKey) options() wasm.Options {
	const page = 64 << 10
	return wasm.Options{Config: []byte(k.config), Grants: strings.Fields(k.grants), MemoryPages: uint32((k.memory + page - 1) / page)}
}

// release gives plugins back.
func (t *pluginTable) release(ps []*plugin) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range ps {
		if p.uses--; p.uses == 0 {
			delete(t.all, p.key)
			t.dead = append(t.dead, p)
		}
	}
	select {
	case t.wake <- struct{}{}:
	default: // already due
	}
}

// run closes plugins that nobody holds until ctx ends.
func (t *pluginTable) run(ctx context.Context) error {
	for {
		t.bury()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.wake:
		}
	}
}

func (t *pluginTable) bury() {
	t.mu.Lock()
	dead := t.dead
	t.dead = nil
	t.mu.Unlock()
	for _, p := range dead {
		p.Close()
	}
}

// list returns the loaded plugins by name and time of loading.
func (t *pluginTable) list() []*plugin {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*plugin
	for _, p := range t.all {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *plugin) int {
		if c := strings.Compare(a.key.name, b.key.name); c != 0 {
			return c
		}
		return a.since.Compare(b.since)
	})
	return out
}

// close closes everything, after the last generation was given up.
func (t *pluginTable) close() error {
	t.bury()
	return t.runtime.Close()
}

// grantModules are the modules behind the words of the configuration.
var grantModules = map[string]string{"log": abi.ModuleLog, "kv": abi.ModuleKV, "metrics": abi.ModuleMetrics}

// declared returns the settings of a plugin; one that ships with the router
// needs none.
func declared(cfg *config.Config, name string) config.Plugin {
	for _, p := range cfg.Plugins {
		if p.Name == name {
			return p
		}
	}
	return config.Plugin{Name: name}
}

// module returns the code that a plugin's name stands for: that of the watched
// folder, else the version that was activated, else the file, else what ships
// with the router. code is nil if there is none of these yet.
func (h *Host) module(p *config.Plugin) (code []byte, source string, err error) {
	if code := h.folder.code(p.Name); code != nil {
		return code, fromFolder, nil
	}
	if digest, code, ok := h.pluginStore.Active(p.Name); ok {
		if p.File != "" {
			h.log.Info("the pushed version of a plugin goes before its file", "plugin", p.Name, "digest", digest, "file", p.File)
		}
		return code, fromStore, nil
	}
	if p.File != "" {
		code, err = readModule(p.File)
		return code, fromFile, err
	}
	if code, err := plugins.Code(p.Name); err == nil {
		return code, fromShipped, nil
	}
	return nil, "", nil
}

func readModule(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	code, err := io.ReadAll(io.LimitReader(f, plugstore.MaxCodeBytes+1))
	if err == nil && len(code) > plugstore.MaxCodeBytes {
		err = fmt.Errorf("%s: more than %d bytes", name, plugstore.MaxCodeBytes)
	}
	return code, err
}

// keyOf returns what code is loaded as; cfg replaces the plugin's own config.
func keyOf(p *config.Plugin, code []byte, cfg config.JSON) pluginKey {
	sum := sha256.Sum256(code)
	k := pluginKey{name: p.Name, digest: hex.EncodeToString(sum[:]), config: string(cfg), memory: p.Limits.Memory}
	if cfg == "" {
		k.config = string(p.Config)
	}
	var grants []string
	for _, g := range p.Grants {
		grants = append(grants, grantModules[g])
	}
	slices.Sort(grants)
	k.grants = strings.Join(grants, " ")
	return k
}

// usePlugin loads a plugin for g in a role, nil if there is no module yet: it
// takes part once one is pushed.
func (h *Host) usePlugin(g *generation, name string, role wasm.Role, cfg config.JSON) (*plugin, error) {
	c := declared(g.cfg, name)
	code, source, err := h.module(&c)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
	if code == nil {
		h.log.Warn("plugin is not there yet: placed without it until it is pushed", "plugin", name)
		return nil, nil
	}
	p, err := h.plugins.acquire(keyOf(&c, code, cfg), source, code, h.now())
	if err != nil {
		return nil, err
	}
	g.plugins = append(g.plugins, p)
	if !p.Has(role) {
		return nil, fmt.Errorf("plugin %s (%s): its manifest has no role %v", name, source, role)
	}
	return p, nil
}

// profilePlugins adds the plugins of a profile to its rules.
func (h *Host) profilePlugins(g *generation, number int, p *config.Profile, out *scheduler.Profile) error {
	var all []*plugin
	var scored []*scoring
	use := func(name string, role wasm.Role, cfg config.JSON) (*adapter, error) {
		pl, err := h.usePlugin(g, name, role, cfg)
		if err != nil || pl == nil {
			return nil, err
		}
		all = append(all, pl)
		return newAdapter(pl, g.cfg, number, p.Objective), nil
	}
	for _, s := range p.Scorers {
		a, err := use(s.Plugin, wasm.Score, s.Config)
		if err != nil {
			return err
		}
		if a != nil {
			out.Scorers = append(out.Scorers, scheduler.Weighted{Scorer: scorer{a}, Weight: s.Weight})
			scored = append(scored, &scoring{a.p.key, g.cfg, number, p.Objective})
		}
	}
	for _, name := range p.Filters {
		a, err := use(name, wasm.Filter, "")
		if err != nil {
			return err
		}
		if a != nil {
			out.Filters = append(out.Filters, filter{a})
		}
	}
	if p.Picker != config.Builtin {
		a, err := use(p.Picker, wasm.Pick, "")
		if err != nil {
			return err
		}
		if a != nil {
			out.Picker = picker{a}
		}
	}
	if len(scored) > 0 {
		g.scored = append(g.scored, scored...)
		out.Decided = func(b *scheduler.Batch, parts [][]float32) { h.offPath.shadows.offer(scored, b, parts) }
	}
	// A call in plain form is bounded by about a millisecond, a sliced one is not.
	out.Unlocked = slices.ContainsFunc(all, func(p *plugin) bool { return p.Stats().Sliced })
	return nil
}

// closeRules gives up the rules in force and all plugins, once nothing uses
// them any more.
func (h *Host) closeRules() error {
	h.rules.Swap(nil, nil)
	if h.plugins == nil {
		return nil
	}
	if h.offPath != nil {
		h.offPath.shadows.close()
	}
	return errors.Join(h.plugins.close())
}
