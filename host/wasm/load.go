package wasm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/abi"
)

// Options control how a plugin is loaded.
type Options struct {
	Config []byte // JSON given to kvasir_configure; nil = {}
	// Grants are the modules the plugin may import, by name ("kvasir:log/1").
	Grants []string
	// Instances for filter, score and pick; 0 = twice GOMAXPROCS, at most 8:
	// a call takes microseconds, so that few are under way at once, and an
	// instance of a Go guest takes 3 MiB.
	Instances int
	// MemoryPages of 64 KiB an instance may have; 0 = 256 (16 MiB).
	MemoryPages uint32
	// CallTime is the most processor time that a call of filter, score or pick with
	// 64 candidates may take, and as much for every further 64; 0 = 2 ms. A plugin
	// that takes more is refused, and goes into quarantine where it does so later.
	CallTime time.Duration
	// Check runs Config.Check on the module too, in the child if there is one.
	Check bool
	// TrialTime limits the elapsed time that the child may take for the module;
	// 0 = 3 minutes.
	TrialTime time.Duration
	// Overlay keeps the plugin's writes to host state to itself: shadow, canary.
	Overlay bool
}

func (o Options) withDefaults() Options {
	if o.Instances == 0 {
		o.Instances = min(2*runtime.GOMAXPROCS(0), 8)
	}
	if o.MemoryPages == 0 {
		o.MemoryPages = defaultPages
	}
	if o.CallTime == 0 {
		o.CallTime = defaultCallTime
	}
	return o
}

// Validate reports all errors in o.
func (o Options) Validate() error {
	var errs []error
	if len(o.Config) > 0 && !json.Valid(o.Config) {
		errs = append(errs, errors.New("wasm: plugin config is not JSON"))
	}
	if o.Instances < 0 || o.Instances > 1024 {
		errs = append(errs, fmt.Errorf("wasm: %d instances, want 0…1024", o.Instances))
	}
	if o.MemoryPages > maxPages {
		errs = append(errs, fmt.Errorf("wasm: %d pages of memory, at most %d", o.MemoryPages, maxPages))
	}
	if o.CallTime < 0 {
		errs = append(errs, fmt.Errorf("wasm: a ceiling of %v for a call, want more than 0", o.CallTime))
	}
	return errors.Join(errs...)
}

// roleType is the type of every role's export.
var roleType = funcType{params: []byte{typeI32}, results: []byte{typeI32}}

// exportTypes are the types of all exports the ABI names.
var exportTypes = map[string]funcType{
	abi.ExportABI: {results: []byte{typeI32}}, abi.ExportManifest: {results: []byte{typeI64}},
	abi.ExportAlloc: roleType, abi.ExportError: {results: []byte{typeI64}}, abi.ExportInitialize: {},
	abi.ExportFilter: roleType, abi.ExportScore: roleType, abi.ExportPick: roleType, abi.ExportObserve: roleType,
	abi.ExportConfigure: roleType, abi.ExportIdle: roleType, abi.ExportAdmit: roleType, abi.ExportAutoscale: roleType,
	abi.ExportBackendParse: roleType, abi.ExportDiscover: roleType,
}

// Load checks, compiles, measures and starts a plugin. The order of the checks
// is that of a *LoadError's Step: module, exports, imports, rewrite, compile,
// start, abi, manifest, roles, columns, grants, configure, smoke, time,
// check. With a child
// (Config.Child) all steps after imports run there first. It takes
// milliseconds for a small module and seconds for one of Go's standard
// toolchain that is not in the compile cache. code is not kept.
func (r *Runtime) Load(ctx context.Context, code []byte, opt Options) (*Plugin, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(code)
	p := &Plugin{rt: r, opt: opt.withDefaults(), digest: hex.EncodeToString(sum[:]), granted: map[string]bool{},
		states: make([]any, len(r.modules)), opened: make([]bool, len(r.modules))}
	for _, g := range opt.Grants {
		p.granted[g] = true
	}
	p.pool.want = p.opt.Instances
	err := p.load(ctx, code)
	if err == nil && opt.Check && !p.checked {
		err = r.checkApart(ctx, code, opt)
	}
	if err != nil {
		p.Close()
		if le, ok := errors.AsType[*LoadError](err); ok {
			return nil, le
		}
		return nil, err
	}
	r.mu.Lock()
	r.plugins[p] = struct{}{}
	r.mu.Unlock()
	return p, nil
}

// checkApart checks a separate copy of the module, so that checks change no state of
// the plugin.
func (r *Runtime) checkApart(ctx context.Context, code []byte, opt Options) error {
	if r.check == nil {
		return nil
	}
	opt.Check, opt.Overlay, opt.Instances = false, true, 1
	p, err := r.Load(ctx, code, opt)
	if err != nil {
		return err
	}
	defer p.Close()
	return loadErr("check", r.check(ctx, r, p))
}

func (p *Plugin) load(ctx context.Context, code []byte) error {
	m, err := parseModule(code)
	if err != nil {
		return loadErr("module", err)
	}
	if err := checkExports(m); err != nil {
		return loadErr("exports", err)
	}
	if err := p.checkImports(m); err != nil {
		return loadErr("imports", err)
	}
	if err := p.tried(ctx, code); err != nil {
		return err
	}
	first, in, err := p.begun(ctx, m, len(code) > slicedBytes)
	if err != nil {
		return err
	}
	if err := p.checkRoles(m); err != nil {
		in.close()
		first.close()
		return err
	}
	if p.Has(Filter) || p.Has(Score) || p.Has(Pick) {
		p.hot = first
		if err := p.fit(ctx, m, in); err != nil {
			return err
		}
		first = p.hot // fit may have compiled it anew
	} else {
		in.close()
	}
	return p.finishLoad(ctx, m, first)
}

// tried loads the module in the child first, if there is one. If no child can be
// started, the module is compiled in this process and competes with requests.
func (p *Plugin) tried(ctx context.Context, code []byte) error {
	n := p.rt.worker
	if n == nil {
		return nil
	}
	t := &trial{CacheDir: n.cacheDir, Options: p.opt, Published: p.rt.board.defaults(), Size: len(code)}
	t.Options.Instances = 1
	t.Options.TrialTime = 0 // the time limit does not change the verdict
	err := n.take(ctx, p.digest, code, t, cmp.Or(p.opt.TrialTime, childTime))
	if errors.Is(err, errNoChild) {
		n.lost.Do(func() {
			p.rt.log.Warn("no child process: plugins are compiled in this process and may delay requests",
				"err", err)
		})
		return nil
	}
	p.checked = err == nil
	p.rt.notify() // the child is to be ended some time
	return err
}

// begun compiles m and creates the first instance, in sliced form if requested or if
// it needs more fuel to start than plain form allows.
func (p *Plugin) begun(ctx context.Context, m *module, sliced bool) (*variant, *instance, error) {
	v, err := p.compile(ctx, m, sliced)
	if err != nil {
		return nil, nil, err
	}
	in, err := p.instantiate(ctx, v)
	if err == nil {
		return v, in, nil
	}
	v.close()
	if f, ok := errors.AsType[*Fault](err); ok && f.Reason == ReasonFuel && !sliced {
		return p.begun(ctx, m, true)
	}
	return nil, nil, err
}

// finishLoad compiles the form the pinned roles need and makes all instances.
func (p *Plugin) finishLoad(ctx context.Context, m *module, first *variant) error {
	if p.manifest.has(Role.pinned) {
		p.cold = first
		if !first.sliced {
			var err error
			if p.cold, err = p.compile(ctx, m, true); err != nil {
				if first != p.hot {
					first.close()
				}
				return err
			}
		}
	}
	if first != p.hot && first != p.cold {
		first.close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refillLocked(ctx); err != nil {
		return err
	}
	p.stats.refills.Store(0)
	return nil
}

// fit measures the cost of the hot roles and recompiles the module if the other form
// suits it better.
func (p *Plugin) fit(ctx context.Context, m *module, in *instance) error {
	units, err := p.calibrate(in)
	if f, ok := errors.AsType[*Fault](err); ok && f.Reason == ReasonFuel && !p.hot.sliced {
		units, err = math.Inf(1), nil
	}
	if err != nil {
		in.close()
		return loadErr("smoke", err)
	}
	sliced := units > slicedAbove
	if !sliced {
		took, _, err := p.timeRoles(in, smokeSizes[len(smokeSizes)-1])
		if err != nil {
			in.close()
			return loadErr("smoke", err)
		}
		sliced = took > plainTime
	}
	if sliced == p.hot.sliced || !sliced && m.codeBytes() > slicedBytes {
		return p.admit(in)
	}
	in.close()
	p.hot.close()
	if p.hot, err = p.compile(ctx, m, sliced); err != nil {
		return err
	}
	if in, err = p.instantiate(ctx, p.hot); err != nil {
		return err
	}
	if _, err := p.calibrate(in); err != nil {
		in.close()
		return loadErr("smoke", err)
	}
	return p.admit(in)
}

// admit takes the first instance of the form that is used, if its calls are fast
// enough.
func (p *Plugin) admit(in *instance) error {
	p.every = sampleEvery
	if p.hot.sliced {
		p.every = sampleSliced
	}
	if err := p.checkTime(in); err != nil {
		in.close()
		return loadErr("time", err)
	}
	p.pool.add(in)
	return nil
}

func (m *module) codeBytes() int {
	for _, s := range m.sections {
		if s.id == secCode {
			return len(s.body)
		}
	}
	return 0
}

func checkExports(m *module) error {
	if _, ok := m.exports[abi.ExportStart]; ok {
		return errors.New("_start is exported: a plugin is a reactor, not a command")
	}
	if e, ok := m.exports[abi.ExportMemory]; !ok || e.kind != kindMemory || !m.memory {
		return errors.New("no memory is exported as \"memory\"")
	}
	for _, name := range []string{abi.ExportABI, abi.ExportManifest, abi.ExportAlloc} {
		if _, ok := m.exports[name]; !ok {
			return fmt.Errorf("%s is not exported", name)
		}
	}
	for name, want := range exportTypes {
		if _, ok := m.exports[name]; !ok {
			continue
		}
		got, ok := m.exported(name)
		if !ok {
			return fmt.Errorf("%s is not a function", name)
		}
		if got.String() != want.String() {
			return fmt.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	return nil
}

// checkImports refuses, by name, every import that is unknown, has another
// type or is not granted.
func (p *Plugin) checkImports(m *module) error {
	for _, im := range m.imports {
		at := slices.IndexFunc(p.rt.modules, func(h *HostModule) bool { return h.Name == im.module })
		if at < 0 {
			return fmt.Errorf("%s.%s: unknown module", im.module, im.name)
		}
		h := p.rt.modules[at]
		f := slices.IndexFunc(h.Funcs, func(f HostFunc) bool { return f.Name == im.name })
		if f < 0 {
			return fmt.Errorf("%s.%s: unknown function", im.module, im.name)
		}
		if want := h.Funcs[f].signature(); im.typ.String() != want.String() {
			return fmt.Errorf("%s.%s is %v, want %v", im.module, im.name, im.typ, want)
		}
		if at > 0 && !p.granted[im.module] {
			return fmt.Errorf("%s.%s: %s is not granted to this plugin", im.module, im.name, im.module)
		}
	}
	return nil
}

func (p *Plugin) compile(ctx context.Context, m *module, sliced bool) (v *variant, err error) {
	defer func() {
		if x := recover(); x != nil { // the engine's compiler gave up
			v, err = nil, loadErr("compile", fmt.Errorf("the engine panicked: %v", x))
		}
	}()
	v = &variant{sliced: sliced, large: m.codeBytes() > slicedBytes}
	out, err := rewriteFuel(m, rewriteOptions{sliced: sliced, initial: v.start(), pages: p.opt.MemoryPages})
	if err != nil {
		return nil, loadErr("rewrite", err)
	}
	if v.code, err = p.rt.rt.CompileModule(ctx, out); err != nil {
		return nil, loadErr("compile", err)
	}
	return v, nil
}

// checkRoles compares the manifest with exports, imports and grants.
func (p *Plugin) checkRoles(m *module) error {
	for r, s := range p.manifest.Roles {
		if _, ok := m.exports[roleExports[r]]; s != nil && !ok {
			return loadErr("roles", fmt.Errorf("role %s is in the manifest, but %s is not exported", Role(r), roleExports[r]))
		}
	}
	for _, im := range m.imports {
		if im.module != abi.ModuleWASI && !slices.Contains(p.manifest.Imports, im.module) {
			return loadErr("grants", fmt.Errorf("%s is imported but not listed in the manifest", im.module))
		}
	}
	return nil
}
