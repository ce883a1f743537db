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
	shipped "github.com/kvasir-router/kvasir/plugins"
)

// Where a plugin's module came from.
const (
	fromStore    = "stored"   // pushed and activated
	fromPrevious = "previous" // of the store too: active before
	fromFile     = "file"     // of the configuration
	fromShipped  = "shipped"  // with the router
)

// module is one that a plugin's name may stand for.
type module struct {
	source string
	code   []byte
	digest string // in hex, "" where there is no code
	err    error  // why there is none
}

func moduleOf(source string, code []byte, err error) module {
	if err != nil {
		return module{source: source, err: err}
	}
	sum := sha256.Sum256(code)
	return module{source: source, code: code, digest: hex.EncodeToString(sum[:])}
}

// modules yields what a plugin's name stands for and, after it, what would stand
// in where that does not load: the file of the watched folder, the version that
// was activated, the one active before, the file of the configuration, what ships
// with the router.
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
		previous = nil // there is none, or it is torn
	}
	if x := p.change; x != nil && !x.folder && x.name == c.Name {
		return x.code, code
	}
	if !ok {
		return nil, nil
	}
	if c.File != "" {
		p.log.Info("the pushed version of a plugin goes before its file", "plugin", c.Name, "digest", digest, "file", c.File)
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

// load loads the module that c's name stands for; cfg replaces the plugin's
// own config. fits says why a plugin that was loaded is of no use, nil = it is. The
// caller must release the plugin.
//
// At the start of the router (prev is nil) a module that does not load is set aside
// and what stands behind it taken, so that a stale file or a version that this host
// no longer takes stops nobody; it stays set aside in later generations as long as
// it does not load. Otherwise, and if the caller is strict, it is an error, and the
// rules before stay in force.
// Without an error and without a plugin there is no module, or all are set aside,
// which why tells.
func (pl *plan) load(c *config.Plugin, cfg config.JSON, strict bool, fits func(*plugin) error) (p *plugin, why error, err error) {
	for m := range pl.modules(c) {
		err := m.err
		if err == nil {
			if p, err = pl.acquireSigned(context.Background(), pl.cfg, keyOf(c, m.digest, cfg), m.source, m.code, trialOptions{}); err == nil {
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
			pl.log.Error("a plugin's module does not load: it is set aside, another stands in", "err", err)
		}
	}
	return nil, why, nil
}

// withSignatureAdvice adds to why a module is not taken what to do about it where it is in
// force and would be no longer trusted: whose key is taken out of the configuration
// may not lose placement by it.
func withSignatureAdvice(prev *Set, k asideKey, err error) error {
	unsigned := errors.Is(err, plugsign.ErrUntrusted) || errors.Is(err, plugsign.ErrUnsigned)
	if !unsigned || prev == nil || !slices.ContainsFunc(prev.plugins, func(p *plugin) bool { return p.key.name == k.name && p.key.digest == k.digest }) {
		return err
	}
	return fmt.Errorf("%w; it is in force and goes on placing: first put a version in force that a key signed which stays "+
		"(kvasir plugin sign FILE --key KEY, then push or save that), or go back (kvasir plugin rollback %s)", err, k.name)
}

// acquireSigned acquires a plugin whose module is signed as cfg asks for. The
// caller must release it.
func (m *Manager) acquireSigned(ctx context.Context, cfg *config.Config, k pluginKey, source string, code []byte, trial trialOptions) (*plugin, error) {
	signer, err := signerOf(cfg, source, code)
	if err != nil {
		return nil, err
	}
	p, err := m.table.acquire(ctx, k, source, code, m.now(), trial)
	if err != nil {
		return nil, err
	}
	p.signer.Store(&signer)
	return p, nil
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
		lines = append(lines, fmt.Sprintf("plugin %s: the %s module does not load, another stands in", k.name, k.source))
	}
	return lines
}

// asideModules returns those of the rules in force.
func (m *Manager) asideModules() (keys []asideKey, why map[asideKey]error) {
	set, _, release := m.rules.Current()
	defer release()
	return set.asideModules()
}

// placeholder stands in the place of a plugin all of whose modules are set aside, so
// that explain and the metrics tell of it.
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
