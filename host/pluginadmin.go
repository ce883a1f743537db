package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/plugstore"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// pluginAdmin is the admin API's face of plugins.
type pluginAdmin struct{ h *Host }

// pluginStatus is one plugin as operators see it. Of one that is loaded with
// several configs there are several.
type pluginStatus struct {
	Name    string       `json:"name"`
	Digest  string       `json:"digest,omitempty"`
	Version string       `json:"version,omitempty"` // of the manifest
	Signer  string       `json:"signer,omitempty"`  // trusted keys that signed it
	Source  string       `json:"source"`            // stored, file or shipped
	Roles   []string     `json:"roles"`
	State   string       `json:"state"` // active, quarantined, stored: nobody uses it, or aside: it does not load, another stands in
	Reason  string       `json:"reason,omitempty"`
	Config  string       `json:"config,omitempty"`
	Since   time.Time    `json:"since,omitzero"`
	Stats   *pluginStats `json:"stats,omitempty"`

	Active   string              `json:"active,omitempty"`   // digest
	Previous string              `json:"previous,omitempty"` // digest a rollback goes to
	Versions []plugstore.Version `json:"versions"`           // pushed ones
	Shadow   *shadowStatus       `json:"shadow,omitempty"`
}

// pluginStats counts since the plugin was loaded.
type pluginStats struct {
	Calls             uint64                 `json:"calls"` // answered
	Abstained         uint64                 `json:"abstained"`
	Busy              uint64                 `json:"busy"` // no free instance
	Faults            map[wasm.Reason]uint64 `json:"faults"`
	Instances         int                    `json:"instances"` // free at this moment
	Recycled          uint64                 `json:"recycled"`  // replaced because their memory grew
	Sliced            bool                   `json:"sliced"`    // asked without the decision lock
	UnitsPerCandidate float64                `json:"units_per_candidate"`
	LastUnits         int64                  `json:"last_units"`  // fuel of the last timed call
	CallMicros        float64                `json:"call_us"`     // moving mean
	CallMicrosMax     float64                `json:"call_max_us"` // longest timed
	Observed          uint64                 `json:"observed"`    // outcomes it was told of
	Unobserved        uint64                 `json:"unobserved"`  // outcomes it failed to take
}

func statsOf(p *plugin, s *wasm.Stats) *pluginStats {
	return &pluginStats{s.Calls, s.Abstained, s.Busy, s.Faults, s.Instances, s.Recycled, s.Sliced, s.UnitsPerCandidate, s.LastUnits,
		s.CallNanos / 1e3, float64(s.CallNanosMax) / 1e3, p.observed.Load(), p.unheard.Load()}
}

// Plugins implements admin.Plugins.
func (a pluginAdmin) Plugins(context.Context) (any, error) {
	stored, err := a.h.pluginStore.List()
	if err != nil {
		a.h.log.Warn("plugin store", "err", err)
	}
	byName := map[string]plugstore.Stored{}
	for _, s := range stored {
		byName[s.Name] = s
	}
	out, used := []pluginStatus{}, map[string]bool{}
	for _, p := range a.h.plugins.list() {
		st := p.Stats()
		s := pluginStatus{Name: p.key.name, Digest: p.Digest(), Version: p.Manifest().Version, Source: p.source, Roles: []string{},
			State: "active", Signer: p.signedBy(), Config: p.key.config, Since: p.since, Stats: statsOf(p, &st), Active: p.Digest(),
			Previous: byName[p.key.name].Previous, Versions: byName[p.key.name].Versions,
			Shadow: a.h.offPath.shadows.of(p.key.name).status()}
		if st.Quarantined {
			s.State, s.Reason = "quarantined", st.QuarantineReason
		}
		for r := range p.Manifest().Roles {
			if p.Has(wasm.Role(r)) {
				s.Roles = append(s.Roles, wasm.Role(r).String())
			}
		}
		out, used[p.key.name] = append(out, s), true
	}
	keys, why := a.h.asideModules()
	aside := map[string]bool{}
	for _, k := range keys {
		s := byName[k.name]
		out = append(out, pluginStatus{Name: k.name, Digest: k.digest, Source: k.source, Roles: []string{}, State: "aside", Reason: why[k].Error(),
			Active: s.Active, Previous: s.Previous, Versions: s.Versions})
		aside[k.name] = true
	}
	for _, s := range stored {
		if !used[s.Name] && !aside[s.Name] {
			out = append(out, pluginStatus{Name: s.Name, Digest: s.Active, Source: fromStore, Roles: []string{}, State: "stored",
				Reason: "no profile and no pool names it", Active: s.Active, Previous: s.Previous, Versions: s.Versions,
				Shadow: a.h.offPath.shadows.of(s.Name).status()})
		}
	}
	return map[string]any{"plugins": out}, nil
}

// Push implements admin.Plugins: the module is loaded as it will be, then
// stored, then put in force.
func (a pluginAdmin) Push(_ context.Context, name string, code []byte, activate bool, who string) (any, error) {
	if !plugstore.ValidName(name) {
		return nil, errPluginName(name)
	}
	h := a.h
	h.reloadMu.Lock()
	defer h.reloadMu.Unlock()
	p, err := h.tryLocked(name, fromStore, code)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	defer h.plugins.release([]*plugin{p}) // after the rules hold it
	digest, err := h.pluginStore.Put(name, code, who)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	if !activate {
		return map[string]any{"name": name, "digest": digest, "active": false, "signer": p.signedBy()}, nil
	}
	before, _, _ := h.pluginStore.Active(name)
	if err := h.pluginStore.Activate(name, digest); err != nil {
		return nil, err
	}
	return a.putInForce(name, digest, func() error { return a.back(name, before) })
}

// back undoes an Activate or Deactivate, also for a later rollback: what was
// refused is nothing to go back to.
func (a pluginAdmin) back(name, before string) error {
	if now, _, _ := a.h.pluginStore.Active(name); now == before {
		return nil
	}
	_, err := a.h.pluginStore.Rollback(name)
	return err
}

func errPluginName(name string) error {
	return fmt.Errorf("%w: name %.128q: say ?name=NAME with lower-case letters, digits and -", admin.ErrRefused, name)
}

// tryLocked loads a module with the settings of the rules in force. The caller
// holds reloadMu and must release the plugin.
func (h *Host) tryLocked(name, source string, code []byte) (*plugin, error) {
	l := h.rules.Acquire()
	cfg := l.Value().cfg
	l.Release()
	c := declared(cfg, name)
	return h.acquireSigned(cfg, keyOf(&c, moduleOf(source, code, nil).digest, ""), source, code)
}

// putInForce rebuilds the rules after the active version of a plugin changed;
// where that fails it takes the change back.
func (a pluginAdmin) putInForce(name, digest string, undo func() error) (any, error) {
	g, err := a.h.rebuildLocked(nil)
	if err != nil {
		a.h.reloadFailed(err)
		return nil, errors.Join(fmt.Errorf("%w: %v", admin.ErrRefused, err), undo())
	}
	used, signer := false, ""
	for _, p := range g.plugins {
		if p.key.name == name {
			used, signer = true, p.signedBy()
		}
	}
	if sh := a.h.offPath.shadows.of(name); sh != nil && sh.digest == digest {
		a.h.offPath.shadows.set(name, nil) // there is nothing left to compare
	}
	a.h.log.Info("plugin in force", "plugin", name, "digest", digest, "signer", signer, "generation", g.number, "used", used)
	return map[string]any{"name": name, "digest": digest, "active": true, "used": used, "signer": signer, "generation": g.number}, nil
}

// Activate implements admin.Plugins.
func (a pluginAdmin) Activate(_ context.Context, name, digest string) (any, error) {
	digest, err := a.version(name, digest)
	if err != nil {
		return nil, err
	}
	return a.change(name, func() (string, error) { return digest, a.h.pluginStore.Activate(name, digest) }, a.back)
}

// minDigest is how many characters of a digest name a version.
const minDigest = 8

// version completes the digest of a stored version.
func (a pluginAdmin) version(name, digest string) (string, error) {
	if len(digest) < minDigest {
		return "", fmt.Errorf("%w: digest %.64q: want at least %d characters of it", admin.ErrRefused, digest, minDigest)
	}
	stored, err := a.h.pluginStore.List()
	if err != nil {
		a.h.log.Warn("plugin store", "err", err)
	}
	var found []string
	for _, s := range stored {
		for _, v := range s.Versions {
			if s.Name == name && strings.HasPrefix(v.Digest, digest) {
				found = append(found, v.Digest)
			}
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: no version %.64s of plugin %.64q is stored", admin.ErrNotFound, digest, name)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%w: %d versions of %s begin with %s", admin.ErrRefused, len(found), name, digest)
}

// Rollback implements admin.Plugins.
func (a pluginAdmin) Rollback(_ context.Context, name string) (any, error) {
	return a.change(name, func() (string, error) { return a.h.pluginStore.Rollback(name) }, func(name, before string) error {
		if before == "" {
			return a.h.pluginStore.Deactivate(name)
		}
		return a.h.pluginStore.Activate(name, before)
	})
}

// Deactivate implements admin.Plugins.
func (a pluginAdmin) Deactivate(_ context.Context, name string) (any, error) {
	return a.change(name, func() (string, error) { return "", a.h.pluginStore.Deactivate(name) }, a.back)
}

// change does something to the active version of a plugin and puts that in force;
// where that is refused, undo takes it back to the version before, "" = none.
func (a pluginAdmin) change(name string, do func() (string, error), undo func(name, before string) error) (any, error) {
	a.h.reloadMu.Lock()
	defer a.h.reloadMu.Unlock()
	before, _, _ := a.h.pluginStore.Active(name)
	digest, err := do()
	switch {
	case errors.Is(err, plugstore.ErrUnknown):
		return nil, fmt.Errorf("%w: %v", admin.ErrNotFound, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	if _, why := a.h.asideModules(); digest != "" {
		for _, source := range []string{fromStore, fromPrevious} {
			if err := why[asideKey{name, source, digest}]; err != nil {
				return nil, errors.Join(fmt.Errorf("%w: %v", admin.ErrRefused, err), undo(name, before))
			}
		}
	}
	return a.putInForce(name, digest, func() error { return undo(name, before) })
}
