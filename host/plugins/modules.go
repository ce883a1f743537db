package plugins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/plugsign"
	"github.com/kvasir-router/kvasir/host/plugstore"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
	shipped "github.com/kvasir-router/kvasir/plugins"
)

// Where a plugin's module came from.
const (
	fromStore    = "stored"   // pushed and activated
	fromPrevious = "previous" // of the store too: active before
	fromFile     = "file"     // of the configuration
	fromShipped  = "shipped"  // with the router
)

// module is a module that a plugin may use.
type module struct {
	source string
	code   []byte
	digest string // in hex, "" without code
	err    error  // why there is no code
}

func moduleOf(source string, code []byte, err error) module {
	if err != nil {
		return module{source: source, err: err}
	}
	sum := sha256.Sum256(code)
	return module{source: source, code: code, digest: hex.EncodeToString(sum[:])}
}

// modules yields the modules of a plugin in order of precedence: the file in the
// watched folder, the active version, the one active before, the file of the
// configuration, the shipped module. A later one is the fallback of those before.
func (p *plan) modules(c *config.Plugin) iter.Seq[module] {
	return func(yield func(module) bool) {
		if code := p.folderCode(c.Name); code != nil && !yield(moduleOf(fromFolder, code, nil)) {
			return
		}
		if code, previous := p.storedCode(c); code != nil {
			if !yield(moduleOf(fromStore, code, nil)) {
				return
			}
			if previous != nil && !yield(moduleOf(fromPrevious, previous, nil)) {
				return
			}
		}
		if c.File != "" {
			code, err := ReadModule(c.File)
			if !yield(moduleOf(fromFile, code, err)) {
				return
			}
		}
		if code, err := shipped.Code(c.Name); err == nil {
			yield(moduleOf(fromShipped, code, nil))
		}
	}
}

// folderCode returns the module of the watched folder, nil = none.
func (p *plan) folderCode(name string) []byte {
	if c := p.change; c != nil && c.folder && c.name == name {
		return c.code
	}
	return p.folder.code(name)
}

// storedCode returns the active version of a plugin, nil = none, and the one active
// before it, nil = none.
func (p *plan) storedCode(c *config.Plugin) (code, previous []byte) {
	digest, code, ok := p.store.Active(c.Name)
	previous, err := p.store.Previous(c.Name)
	if err != nil {
		previous = nil // none, or a corrupt file
	}
	if x := p.change; x != nil && !x.folder && x.name == c.Name {
		return x.code, code
	}
	if !ok {
		return nil, nil
	}
	if c.File != "" {
		p.log.Info("the pushed version of a plugin takes precedence over its file", "plugin", c.Name, "digest",
			digest, "file", c.File)
	}
	return code, previous
}

// ReadModule reads a module from a file of at most plugstore.MaxCodeBytes.
func ReadModule(name string) ([]byte, error) {
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

// asideKey names a module that was set aside.
type asideKey struct{ name, source, digest string }

// load loads the first module of plugin c that loads; cfg replaces the plugin's own
// config. fits returns why a loaded plugin cannot be used, nil = it can. The caller
// must release the plugin.
//
// At the start of the router (prev is nil) a module that does not load is set aside
// and the next one used, so that a stale file or an outdated version does not prevent
// the start; it stays set aside in later revisions until it loads. Otherwise, or if
// strict, it is an error, and the previous revision stays in force.
// p and err are nil if there is no module, or if all are set aside; why is then the
// reason.
func (pl *plan) load(c *config.Plugin, cfg config.JSON, strict bool,
	fits func(*plugin) error) (p *plugin, why error, err error) {
	for m := range pl.modules(c) {
		err := m.err
		if err == nil {
			if p, err = pl.acquireSigned(context.Background(), pl.cfg, keyOf(c, m.digest, cfg), m.source, m.code,
				trialOptions{}); err == nil {
				if err = fits(p); err == nil {
					return p, why, nil
				}
				pl.table.release([]*plugin{p})
			}
		}
		err = fmt.Errorf("plugin %s (%s): %w", c.Name, m.source, err)
		k := asideKey{c.Name, m.source, m.digest}
		if pl.prev == nil && strict || pl.prev != nil && pl.prev.aside[k] == nil {
			return nil, nil, withSignatureAdvice(pl.prev, k, err)
		}
		if why == nil {
			why = err
		}
		if pl.aside[k] == nil {
			pl.aside[k] = err
			pl.log.Error("plugin module failed to load; using a fallback", "err", err)
		}
	}
	return nil, why, nil
}

// withSignatureAdvice adds advice to the error of a module that is in force and would
// no longer be trusted: removing a key from the configuration must not silently remove
// a plugin.
func withSignatureAdvice(prev *Set, k asideKey, err error) error {
	unsigned := errors.Is(err, plugsign.ErrUntrusted) || errors.Is(err, plugsign.ErrUnsigned)
	if !unsigned || prev == nil || !slices.ContainsFunc(prev.plugins,
		func(p *plugin) bool { return p.key.name == k.name && p.key.digest == k.digest }) {
		return err
	}
	return fmt.Errorf("%w; the version in force stays in use: first activate a version signed by a key that remains "+
		"(kvasir plugin sign FILE --key KEY, then push or save it), or roll back (kvasir plugin rollback %s)", err, k.name)
}

// acquireSigned acquires a plugin whose module has the signatures that cfg requires.
// The caller must release it.
func (m *Manager) acquireSigned(ctx context.Context, cfg *config.Config, k pluginKey, source string, code []byte,
	trial trialOptions) (*plugin, error) {
	signer, err := signerOf(cfg, source, code)
	if err != nil {
		return nil, err
	}
	p, err := m.table.acquire(ctx, k, source, code, m.now(), trial)
	if err != nil {
		return nil, withConfigKey(cfg, k, err)
	}
	p.signer.Store(&signer)
	return p, nil
}

// withConfigKey adds the key of the configuration file to the error of a module that does
// not take its configuration.
func withConfigKey(cfg *config.Config, k pluginKey, err error) error {
	if le, ok := errors.AsType[*wasm.LoadError](err); !ok || le.Step != "configure" || k.config == "" {
		return err
	}
	for i := range cfg.Profiles {
		for j, s := range cfg.Profiles[i].Scorers {
			if s.Plugin == k.name && string(s.Config) == k.config {
				return fmt.Errorf("profiles[%d].scorers[%d].config: %w", i, j, err)
			}
		}
	}
	for i, p := range cfg.Plugins {
		if p.Name == k.name {
			return fmt.Errorf("plugins[%d].config: %w", i, err)
		}
	}
	return err
}

// signerOf returns the names of the trusted keys that signed a module. What ships
// with the router is part of it and needs no signature of its own.
func signerOf(cfg *config.Config, source string, code []byte) (string, error) {
	if source == fromShipped {
		return "", nil
	}
	signers, err := cfg.Signatures.Trust().Verify(code)
	return strings.Join(signers, ", "), err
}

// asideModules returns the modules that s has set aside, by name, and why.
func (s *Set) asideModules() (keys []asideKey, why map[asideKey]error) {
	for k := range s.aside {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b asideKey) int {
		return strings.Compare(a.name+" "+a.source+" "+a.digest, b.name+" "+b.source+" "+b.digest)
	})
	return keys, s.aside
}

// Aside describes the modules that do not load, a line each.
func (s *Set) Aside() (lines []string) {
	keys, _ := s.asideModules()
	for _, k := range keys {
		lines = append(lines, fmt.Sprintf("plugin %s: the %s module failed to load; using a fallback", k.name, k.source))
	}
	return lines
}

// AsideErrors returns why each module that is set aside does not load.
func (s *Set) AsideErrors() (errs []error) {
	keys, why := s.asideModules()
	for _, k := range keys {
		errs = append(errs, why[k])
	}
	return errs
}

// asideModules returns those of the rules in force.
func (m *Manager) asideModules() (keys []asideKey, why map[asideKey]error) {
	set, _, release := m.rules.Current()
	defer release()
	return set.asideModules()
}

// placeholder replaces a plugin whose modules are all set aside, so that explain and
// the metrics show it.
type placeholder struct {
	name string
	unit scheduler.Unit
	why  error
}

// Name implements scheduler.Scorer, scheduler.Filter and scheduler.Picker.
func (a placeholder) Name() string { return a.name }

// Digest implements scheduler.Digester.
func (placeholder) Digest() string { return "none" }

// Unit implements scheduler.Scorer.
func (a placeholder) Unit() scheduler.Unit { return a.unit }

// Wants implements scheduler.Wanter.
func (placeholder) Wants() scheduler.ColumnSet { return 0 }

// Score implements scheduler.Scorer.
func (a placeholder) Score(*scheduler.Batch) error { return a.why }

// Filter implements scheduler.Filter.
func (a placeholder) Filter(*scheduler.Batch, []uint32) error { return a.why }

// Reasons implements scheduler.Filter.
func (placeholder) Reasons() []string { return nil }

// Pick implements scheduler.Picker.
func (a placeholder) Pick(*scheduler.Batch, []uint32, []uint32) (int, error) { return 0, a.why }
