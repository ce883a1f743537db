package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// maxPages is the most memory a grant may give: 64 MiB. The default is 16 MiB;
// Go's runtime needs 4.
const (
	maxPages     = 1024
	defaultPages = 256
)

// spec is a role as resolved at load.
type spec struct {
	cols    []column
	req     []int // abi.Req…, -1 = always 0
	outs    []int // observe: abi.Out… of each column, -1 = always its default
	reasons uint32
	nterms  uint32
}

// variant is a module compiled in one form.
type variant struct {
	code   wazero.CompiledModule
	sliced bool
	large  bool // above slicedBytes: it brings a runtime
}

// Plugin is a loaded plugin: immutable rules, and the instances they run in.
// Its calls may be made concurrently. Close it once, after its last call: the
// revision of rules that holds it does (host/internal/snapshot).
type Plugin struct {
	rt       *Runtime
	checked  bool // the child has passed it
	opt      Options
	name     string
	digest   string // sha256 of the module as loaded, in hex
	manifest *Manifest
	rawMan   []byte
	granted  map[string]bool
	specs    [NumRoles]*spec
	pubs     []*published // in the order of the manifest
	used     []*published // to release: pubs and the columns that are read
	states   []any        // per module of the runtime
	opened   []bool

	hot          *variant // nil = no hot role
	cold         *variant // sliced, for the pinned roles; nil = the plugin has none
	budgets      [NumRoles]budget
	pool         pool
	replacements replacements
	breaker      breaker
	watch        watch
	every        uint64 // one call in this many is timed
	stats        counters

	printed atomic.Int64 // second of the last output that was logged

	deadMu sync.Mutex // guards dead
	dead   []*instance

	mu       sync.Mutex // guards what follows; held while instances are made
	reported bool       // its quarantine was reported
	pinned   *instance  // for observe and the experimental roles; nil = lost to a fault
	closed   bool
}

// Name returns the manifest's name.
func (p *Plugin) Name() string { return p.name }

// Digest returns the SHA-256 of the module in hex.
func (p *Plugin) Digest() string { return p.digest }

// Manifest returns the plugin's manifest. It must not be changed.
func (p *Plugin) Manifest() *Manifest { return p.manifest }

// Has reports whether the plugin has a role.
func (p *Plugin) Has(r Role) bool { return p.manifest.Roles[r] != nil }

// Quarantine returns the fault for which the plugin is in quarantine, "" = it is not.
func (p *Plugin) Quarantine() string { return p.breaker.reason() }

func (p *Plugin) unitsPerCandidate() float64 {
	u := 0.0
	for _, b := range p.budgets[:Observe] {
		u = max(u, b.per)
	}
	return u
}

// fault ends a failed call: it discards the instance and wakes the runtime.
func (p *Plugin) fault(in *instance, r Role, err error) error {
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		f = &Fault{Plugin: p.name, Reason: ReasonTrap, Detail: err.Error()}
	}
	f.Role = r.String()
	if r.hot() {
		p.pool.drop()
	}
	p.deadMu.Lock()
	p.dead = append(p.dead, in)
	p.deadMu.Unlock()
	p.stats.fault(f)
	if f.Reason == ReasonTime {
		p.breaker.slow(time.Now(), f)
	} else {
		p.breaker.fault(time.Now(), f)
	}
	p.rt.notify()
	return f
}

func (p *Plugin) closeDead() {
	p.deadMu.Lock()
	dead := p.dead
	p.dead = nil
	p.deadMu.Unlock()
	for _, in := range dead {
		in.close()
	}
}

// maintain closes lost instances, creates missing ones and probes a plugin whose
// back-off has ended. It returns the time of the next probe, zero = none.
func (p *Plugin) maintain(ctx context.Context, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeDead()
	if f, n := p.stats.takeFault(); f != nil {
		p.rt.log.Warn("plugin fault", "plugin", p.name, "digest", p.digest, "role", f.Role, "reason", f.Reason, "detail",
			f.Detail, "faults", n, "quarantined", !p.breaker.allow())
	}
	p.reportQuarantineLocked()
	if p.closed {
		return time.Time{}
	}
	probe, until := p.breaker.due(now)
	switch {
	case !until.IsZero() && !probe:
		return until
	case probe:
		err := p.probe(ctx)
		p.breaker.probed(now, err)
		if err != nil {
			_, until = p.breaker.due(now)
			return until
		}
		p.rt.log.Info("plugin left quarantine", "plugin", p.name, "digest", p.digest)
	}
	if err := p.refillLocked(ctx); err != nil {
		p.breaker.fault(now, err)
		p.rt.log.Warn("plugin instance", "plugin", p.name, "err", err)
		return now.Add(firstBackoff)
	}
	return time.Time{}
}

// reportQuarantineLocked reports to Config.Quarantined that the plugin went into
// quarantine, or that its faults have expired. The caller holds p.mu.
func (p *Plugin) reportQuarantineLocked() {
	why := p.breaker.reason()
	if p.rt.quarantined == nil || (why != "") == p.reported || why == "" && !p.breaker.forgiven() {
		return
	}
	p.reported = why != ""
	p.rt.quarantined(p.digest, why)
}

// probe runs the smoke batches on a fresh instance.
func (p *Plugin) probe(ctx context.Context) error {
	if p.hot == nil {
		return nil // only pinned roles: created again below
	}
	in, err := p.instantiate(ctx, p.hot)
	if err != nil {
		return err
	}
	err = p.smoke(in)
	if err == nil {
		err = p.checkTime(in)
	}
	if err != nil {
		in.close()
		return err
	}
	p.pool.add(in)
	return nil
}

func (p *Plugin) refillLocked(ctx context.Context) error {
	for p.hot != nil && p.pool.missing() > 0 {
		in, err := p.instantiate(ctx, p.hot)
		if err != nil {
			return err
		}
		p.pool.add(in)
		p.stats.refills.Add(1)
	}
	if err := p.makeReplacementLocked(ctx); err != nil {
		return err
	}
	if p.cold != nil && p.pinned == nil {
		in, err := p.instantiate(ctx, p.cold)
		if err != nil {
			return err
		}
		p.pinned = in
	}
	return nil
}

// Close closes the plugin and frees all that it owns. Running calls finish first or
// return ErrClosed or a fault.
func (p *Plugin) Close() {
	p.rt.mu.Lock()
	delete(p.rt.plugins, p)
	p.rt.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.pool.close()
	if replacement := p.replacements.ready.Swap(nil); replacement != nil {
		replacement.close()
	}
	if p.pinned != nil {
		p.pinned.close()
		p.pinned = nil
	}
	p.closeDead()
	p.hot.close()
	if p.cold != p.hot {
		p.cold.close()
	}
	for _, c := range p.used {
		p.rt.board.release(c)
	}
	for i, m := range p.rt.modules {
		if p.opened[i] && m.Close != nil {
			m.Close(p.states[i])
		}
	}
}

func (v *variant) close() {
	if v != nil {
		_ = v.code.Close(context.Background()) // frees memory; has nothing to report
	}
}

// instantiate makes one instance and takes it through its start: start
// section, _initialize, kvasir_abi, kvasir_manifest, kvasir_configure. On the
// first instance of a plugin it fills p.manifest.
func (p *Plugin) instantiate(ctx context.Context, v *variant) (*instance, error) {
	in := &instance{plugin: p.name, states: p.states, logs: p.granted[abi.ModuleLog], role: Idle, clocked: true}
	in.printed = &p.printed
	in.nanos = 1 // Go's runtime stops if the clock is 0
	in.call.in = in
	in.ctx = &guestContext{context.WithoutCancel(ctx), in}
	in.budget = v.start()
	mod, err := p.rt.rt.InstantiateModule(withMemory(in.ctx, in), v.code,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		if in.violated != nil {
			err = in.violated
		}
		return nil, loadErr("start", err)
	}
	in.mod = mod
	in.attach(mod)
	if err := p.start(in, v); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

func (v *variant) start() int64 {
	if v.sliced {
		return startSliced
	}
	return startBudget
}

func (p *Plugin) start(in *instance, v *variant) error {
	in.alloc = in.mod.ExportedFunction(abi.ExportAlloc)
	in.errFn = in.mod.ExportedFunction(abi.ExportError)
	for r, name := range roleExports {
		in.roles[r] = in.mod.ExportedFunction(name)
	}
	if f := in.mod.ExportedFunction(abi.ExportInitialize); f != nil {
		if err := in.command(f, v.start()); err != nil {
			return loadErr("start", err)
		}
	}
	if err := in.command(in.mod.ExportedFunction(abi.ExportABI), v.start()); err != nil {
		return loadErr("abi", err)
	}
	if err := checkABI(uint32(in.stack[0])); err != nil {
		return loadErr("abi", err)
	}
	if err := p.readManifest(in, v); err != nil {
		return err
	}
	if p.Has(Configure) {
		if err := p.configure(in, v); err != nil {
			return loadErr("configure", err)
		}
	}
	in.started = true
	in.atStart = in.mem.Size()
	return nil
}

func (in *instance) command(f api.Function, budget int64) error {
	in.setFuel(budget)
	return in.invoke(f)
}

func checkABI(v uint32) error {
	if major, minor := v>>16, v&0xffff; major != abi.Major || minor > abi.Minor {
		return fmt.Errorf("built for version %d.%d, this host has %d.%d", major, minor, abi.Major, abi.Minor)
	}
	return nil
}

func (p *Plugin) readManifest(in *instance, v *variant) error {
	if err := in.command(in.mod.ExportedFunction(abi.ExportManifest), v.start()); err != nil {
		return loadErr("manifest", err)
	}
	at, n := uint32(in.stack[0]>>32), uint32(in.stack[0])
	if n > abi.MaxManifestBytes {
		return loadErr("manifest", fmt.Errorf("%d bytes, at most %d", n, abi.MaxManifestBytes))
	}
	text, ok := in.mem.Read(at, n)
	if !ok {
		return loadErr("manifest", fmt.Errorf("%d bytes at %d are outside memory", n, at))
	}
	if p.manifest != nil {
		if !bytes.Equal(text, p.rawMan) {
			return loadErr("manifest", &Fault{Plugin: p.name, Reason: ReasonChanged,
				Detail: "the manifest differs from that of another instance"})
		}
		return nil
	}
	m, err := ParseManifest(text)
	if err != nil {
		return loadErr("manifest", err)
	}
	if err := m.CheckConfig(p.opt.Config); err != nil {
		return loadErr("configure", err)
	}
	p.manifest, p.rawMan, p.name, in.plugin = m, bytes.Clone(text), m.Name, m.Name
	return p.resolve(in)
}

// configure hands the plugin's config to an instance.
func (p *Plugin) configure(in *instance, v *variant) error {
	text := p.opt.Config
	if len(text) == 0 {
		text = []byte("{}")
	}
	size := uint32(abi.ConfigureHeaderSize + len(text))
	if err := in.ensure(size, v.start()); err != nil {
		return err
	}
	b := in.view(size)
	h := words(b[:abi.ConfigureHeaderSize])
	h[abi.ConfigureSize/4] = abi.ConfigureHeaderSize
	h[abi.ConfigureFlags/4] = 0
	h[abi.ConfigureDataOff/4] = abi.ConfigureHeaderSize
	h[abi.ConfigureDataLen/4] = uint32(len(text))
	copy(b[abi.ConfigureHeaderSize:], text)
	if err := in.run(Configure, v.start()); err != nil && !errors.Is(err, ErrAbstain) {
		return err
	}
	return nil
}
