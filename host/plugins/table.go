package plugins

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// plugin is a loaded plugin. Revisions that use the same module with the same settings
// share it.
type plugin struct {
	*wasm.Plugin
	key    pluginKey
	source string
	since  time.Time
	uses   int // sets that hold it; guarded by table.mu

	// names of the trusted keys that signed it, by the rules it was last loaded for
	signer               atomic.Pointer[string]
	rest                 rest          // between calls off the request path
	observed, unobserved atomic.Uint64 // outcomes that were passed to it, and those that were not
}

// signedBy returns the names of the trusted keys that signed the module.
func (p *plugin) signedBy() string {
	if s := p.signer.Load(); s != nil {
		return *s
	}
	return ""
}

// pluginKey identifies a loaded plugin: uses with equal keys share it.
type pluginKey struct {
	name, digest, config, grants string
	memory                       config.Size
	call                         config.Duration
}

// table holds the loaded plugins. A plugin is closed when no set holds it, by run and
// not by the request that released the last lease.
type table struct {
	runtime *wasm.Runtime
	loads   atomic.Uint64

	mu   sync.Mutex // guards all, dead and plugin.uses
	all  map[pluginKey]*plugin
	dead []*plugin
	wake chan struct{} // cap 1: dead has grown
}

func newTable(r *wasm.Runtime) *table {
	return &table{runtime: r, all: map[pluginKey]*plugin{}, wake: make(chan struct{}, 1)}
}

// acquire returns the plugin of k and loads it from code if necessary. The caller must
// release it.
func (t *table) acquire(ctx context.Context, k pluginKey, source string, code []byte, now time.Time,
	trial trialOptions) (*plugin, error) {
	t.mu.Lock()
	if p := t.all[k]; p != nil {
		p.uses++
		t.mu.Unlock()
		return p, nil
	}
	t.mu.Unlock()
	w, err := t.runtime.Load(ctx, code, trial.add(k.options()))
	if err != nil {
		return nil, err
	}
	t.loads.Add(1)
	p := &plugin{Plugin: w, key: k, source: source, since: now, uses: 1}
	t.mu.Lock()
	defer t.mu.Unlock()
	if first := t.all[k]; first != nil { // loaded by another caller meanwhile
		first.uses++
		t.dead = append(t.dead, p)
		t.wakeLocked()
		return first, nil
	}
	t.all[k] = p
	return p, nil
}

func (k *pluginKey) options() wasm.Options {
	const page = 64 << 10
	return wasm.Options{Config: []byte(k.config), Grants: strings.Fields(k.grants),
		MemoryPages: uint32((k.memory + page - 1) / page),
		CallTime:    time.Duration(k.call)}
}

// release releases plugins.
func (t *table) release(ps []*plugin) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range ps {
		if p.uses--; p.uses == 0 {
			delete(t.all, p.key)
			t.dead = append(t.dead, p)
		}
	}
	t.wakeLocked()
}

// wakeLocked makes run close dead plugins.
func (t *table) wakeLocked() {
	select {
	case t.wake <- struct{}{}:
	default: // already due
	}
}

// run closes released plugins until ctx ends.
func (t *table) run(ctx context.Context) error {
	for {
		t.closeDead()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.wake:
		}
	}
}

func (t *table) closeDead() {
	t.mu.Lock()
	dead := t.dead
	t.dead = nil
	t.mu.Unlock()
	for _, p := range dead {
		p.Close()
	}
}

// list returns the loaded plugins by name and time of loading.
func (t *table) list() []*plugin {
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

// close closes everything, after the last set was released.
func (t *table) close() error {
	t.closeDead()
	return t.runtime.Close()
}

// grantModules are the modules of the grants in the configuration.
var grantModules = map[string]string{"log": abi.ModuleLog, "kv": abi.ModuleKV, "metrics": abi.ModuleMetrics}

// declared returns the settings of a plugin, the defaults for a shipped plugin without
// any.
func declared(cfg *config.Config, name string) config.Plugin {
	for _, p := range cfg.Plugins {
		if p.Name == name {
			return p
		}
	}
	return config.Plugin{Name: name}
}

// keyOf returns the key of plugin p with the module of a digest; cfg replaces the
// plugin's own config.
func keyOf(p *config.Plugin, digest string, cfg config.JSON) pluginKey {
	k := pluginKey{name: p.Name, digest: digest, config: string(cfg), memory: p.Limits.Memory, call: p.Limits.Call}
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
