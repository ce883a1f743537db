package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// plugin is a loaded plugin. Generations that use the same module with the same
// settings share it.
type plugin struct {
	*wasm.Plugin
	key    pluginKey
	source string
	since  time.Time
	uses   int // generations that hold it; guarded by pluginTable.mu

	signer            atomic.Pointer[string] // names of the trusted keys that signed it, by the rules it was last loaded for
	observed, unheard atomic.Uint64          // outcomes it was told of, and those it failed to take
}

// signedBy returns the names of the trusted keys that signed the module.
func (p *plugin) signedBy() string {
	if s := p.signer.Load(); s != nil {
		return *s
	}
	return ""
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
		return nil, err
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

// keyOf returns what the module of a digest is loaded as; cfg replaces the plugin's
// own config.
func keyOf(p *config.Plugin, digest string, cfg config.JSON) pluginKey {
	k := pluginKey{name: p.Name, digest: digest, config: string(cfg), memory: p.Limits.Memory}
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

// profileBuilder adds the plugins of one profile to its rules.
type profileBuilder struct {
	h       *Host
	g, prev *generation
	number  int
	p       *config.Profile
	out     *scheduler.Profile
	used    []*plugin
	scored  []*scoring // by scorer, nil = no plugin
	plugins int        // of scored
}

// use loads a plugin in a role; nil without an error is one that there is no module
// of yet, and takes part once one is pushed. Of one whose modules are all set aside
// only the stand-in is returned.
func (b *profileBuilder) use(name string, role wasm.Role, cfg config.JSON) (*adapter, *absent, error) {
	h, c := b.h, declared(b.g.cfg, name)
	fits := func(p *plugin) error {
		if !p.Has(role) {
			return fmt.Errorf("its manifest has no role %v", role)
		}
		if role == wasm.Score {
			return b.alike(p)
		}
		return nil
	}
	pl, why, err := h.loadPlugin(b.g, b.prev, &c, cfg, false, fits)
	if err != nil {
		return nil, nil, err
	}
	if pl == nil && why != nil {
		return nil, &absent{name: name, why: why}, nil
	}
	if pl == nil {
		h.log.Warn("plugin is not there yet: placed without it until it is pushed", "plugin", name)
		return nil, nil, nil
	}
	b.g.plugins, b.used = append(b.g.plugins, pl), append(b.used, pl)
	a := newAdapter(pl, b.g.cfg, b.number, b.p.Objective)
	if why != nil {
		a.note = fmt.Sprintf("the %s module stands in: %v", pl.source, why)
	}
	return a, nil, nil
}

// alike says why a plugin's scores cannot be added to those of the scorers before
// it, nil = they can.
func (b *profileBuilder) alike(p *plugin) error {
	for _, s := range b.out.Scorers {
		if _, gone := s.Scorer.(*absent); gone || b.p.Normalize != "off" {
			continue
		}
		if unit := (scorer{&adapter{p: p}}).Unit(); unit != s.Scorer.Unit() {
			return fmt.Errorf("it scores in %v, %s in %v: they cannot be added up; normalize: minmax or rank makes them alike", unit, s.Scorer.Name(), s.Scorer.Unit())
		}
	}
	return nil
}

// scorer adds one scorer.
func (b *profileBuilder) scorer(s *config.Scorer) error {
	add := func(x scheduler.Scorer, place *scoring) {
		b.out.Scorers = append(b.out.Scorers, scheduler.Weighted{Scorer: x, Weight: s.Weight, Required: s.Required})
		b.scored = append(b.scored, place)
	}
	if s.Builtin != "" {
		add(builtin(s.Builtin, b.p.Objective), nil)
		return nil
	}
	a, gone, err := b.use(s.Plugin, wasm.Score, s.Config)
	switch {
	case err != nil:
		return err
	case gone != nil:
		add(gone, nil)
	case a != nil:
		add(scorer{a}, &scoring{a.p.key, b.g.cfg, b.number, b.p.Objective})
		b.plugins++
	}
	return nil
}

// unify gives stand-ins the unit of the scorers beside them.
func (b *profileBuilder) unify() {
	unit := scheduler.CostTokens
	for _, s := range b.out.Scorers {
		if _, gone := s.Scorer.(*absent); !gone {
			unit = s.Scorer.Unit()
		}
	}
	for _, s := range b.out.Scorers {
		if gone, ok := s.Scorer.(*absent); ok {
			gone.unit = unit
		}
	}
}

func (b *profileBuilder) filter(name string) error {
	a, gone, err := b.use(name, wasm.Filter, "")
	switch {
	case err != nil:
		return err
	case gone != nil:
		b.out.Filters = append(b.out.Filters, gone)
	case a != nil:
		b.out.Filters = append(b.out.Filters, filter{a})
	}
	return nil
}

func (b *profileBuilder) picker(name string) error {
	if name == config.Builtin {
		return nil
	}
	a, gone, err := b.use(name, wasm.Pick, "")
	switch {
	case err != nil:
		return err
	case gone != nil:
		b.out.Picker = gone
	case a != nil:
		b.out.Picker = picker{a}
	}
	return nil
}

// profilePlugins adds scorers, filters and picker of a profile to its rules.
func (h *Host) profilePlugins(g, prev *generation, number int, p *config.Profile, out *scheduler.Profile) error {
	b := &profileBuilder{h: h, g: g, prev: prev, number: number, p: p, out: out}
	for i := range p.Scorers {
		if err := b.scorer(&p.Scorers[i]); err != nil {
			return err
		}
	}
	b.unify()
	for _, name := range p.Filters {
		if err := b.filter(name); err != nil {
			return err
		}
	}
	if err := b.picker(p.Picker); err != nil {
		return err
	}
	if b.plugins > 0 {
		for _, s := range b.scored {
			if s != nil {
				g.scored = append(g.scored, s)
			}
		}
		scored := b.scored
		out.Wants = h.offPath.shadows.wants
		out.Decided = func(b *scheduler.Batch, parts [][]float32) { h.offPath.shadows.offer(scored, b, parts) }
	}
	// A call in plain form is bounded by about a millisecond, a sliced one is not.
	out.Unlocked = slices.ContainsFunc(b.used, func(p *plugin) bool { return p.Stats().Sliced })
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
