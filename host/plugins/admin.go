package plugins

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/plugstore"
	"github.com/kvasir-router/kvasir/host/wasm"
)

func statsOf(p *plugin, s *wasm.Stats) *admin.PluginStats {
	faults := map[string]uint64{}
	for reason, n := range s.Faults {
		faults[string(reason)] = n
	}
	return &admin.PluginStats{
		Calls: s.Calls, Abstained: s.Abstained, Busy: s.Busy, Faults: faults, Instances: s.Instances, Recycled: s.Recycled,
		Sliced:            s.Sliced,
		UnitsPerCandidate: s.UnitsPerCandidate, LastUnits: s.LastUnits, LoadMicros: float64(s.LoadNanos) / 1e3,
		CallMicros: s.CallNanos / 1e3, CallMicrosMax: float64(s.CallNanosMax) / 1e3,
		Observed: p.observed.Load(), Unobserved: p.unobserved.Load(),
	}
}

// Plugins implements admin.Plugins.
func (m *Manager) Plugins(context.Context) ([]admin.Plugin, error) {
	stored, err := m.store.List()
	if err != nil {
		m.log.Warn("plugin store", "err", err)
	}
	byName := map[string]plugstore.Stored{}
	for _, s := range stored {
		byName[s.Name] = s
	}
	out, used := []admin.Plugin{}, map[string]bool{}
	for _, p := range m.table.list() {
		s := p.status()
		s.Previous, s.Versions, s.Shadow = byName[p.key.name].Previous, byName[p.key.name].Versions,
			m.offPath.shadows.of(p.key.name).status()
		out, used[p.key.name] = append(out, s), true
	}
	keys, why := m.asideModules()
	for _, k := range keys {
		s := byName[k.name]
		out = append(out, admin.Plugin{Name: k.name, Digest: k.digest, Source: k.source, Roles: []string{}, State: "aside",
			Reason: why[k].Error(),
			Active: s.Active, Previous: s.Previous, Versions: s.Versions})
		used[k.name] = true
	}
	for _, s := range stored {
		if !used[s.Name] {
			out = append(out, admin.Plugin{Name: s.Name, Digest: s.Active, Source: fromStore, Roles: []string{}, State: "stored",
				Reason: "no profile and no pool names it", Active: s.Active, Previous: s.Previous, Versions: s.Versions,
				Shadow: m.offPath.shadows.of(s.Name).status()})
		}
	}
	return append(out, m.folder.refusals()...), nil
}

// status returns the row of a loaded plugin without its stored versions.
func (p *plugin) status() admin.Plugin {
	st := p.Stats()
	s := admin.Plugin{Name: p.key.name, Digest: p.Digest(), Version: p.Manifest().Version, Source: p.source,
		Roles: []string{},
		State: "active", Signer: p.signedBy(), Config: p.key.config, Since: p.since, Stats: statsOf(p, &st),
		Active: p.Digest()}
	if st.Quarantined {
		s.State, s.Reason = "quarantined", st.QuarantineReason
	}
	for r := range p.Manifest().Roles {
		if p.Has(wasm.Role(r)) {
			s.Roles = append(s.Roles, wasm.Role(r).String())
		}
	}
	return s
}

// Push implements admin.Plugins: the module is loaded as it will be, then
// stored, then put in force.
func (m *Manager) Push(ctx context.Context, name string, code []byte, activate bool,
	who string) (*admin.PluginChange, error) {
	if !plugstore.ValidName(name) {
		return nil, errPluginName(name)
	}
	tried, err := m.try(ctx, name, fromStore, who, code)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	defer m.table.release(tried) // after the rules hold it
	m.change.Lock()
	defer m.change.Unlock()
	digest, err := m.store.Put(name, code, who)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	if !activate {
		return &admin.PluginChange{Name: name, Digest: digest, Signer: tried[0].signedBy()}, nil
	}
	return m.apply(digest, &Change{name: name, code: code, commit: func() error { return m.store.Activate(name, digest) }})
}

func errPluginName(name string) error {
	return fmt.Errorf("%w: invalid plugin name %.128q: use ?name=NAME with lower-case letters, digits and -",
		admin.ErrRefused, name)
}

// apply puts a change of the active version of a plugin in force; digest is that
// version's, "" = none.
func (m *Manager) apply(digest string, c *Change) (*admin.PluginChange, error) {
	set, revision, err := m.rules.Apply(c)
	switch {
	case errors.Is(err, plugstore.ErrUnknown):
		return nil, fmt.Errorf("%w: %v", admin.ErrNotFound, err)
	case err != nil:
		m.failed(err)
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	used, signer := set.uses(c.name)
	if sh := m.offPath.shadows.of(c.name); sh != nil && sh.digest == digest {
		m.offPath.shadows.set(c.name, nil) // the shadow is the active version
	}
	m.log.Info("plugin in force", "plugin", c.name, "digest", digest, "signer", signer, "revision", revision, "used", used)
	answer := &admin.PluginChange{Name: c.name, Digest: digest, Active: true, Used: used, Signer: signer,
		Revision: revision}
	if m.folder.code(c.name) != nil {
		answer.Used, answer.Note = false, c.name+".wasm in plugin_dir takes precedence"
		m.log.Warn("plugin_dir takes precedence over the active version of a plugin", "plugin", c.name)
	}
	return answer, nil
}

// Activate implements admin.Plugins.
func (m *Manager) Activate(_ context.Context, name, digest string) (*admin.PluginChange, error) {
	digest, err := m.version(name, digest)
	if err != nil {
		return nil, err
	}
	m.change.Lock()
	defer m.change.Unlock()
	code, err := m.store.Code(name, digest)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	if err := m.refusedBefore(name, digest); err != nil {
		return nil, err
	}
	return m.apply(digest, &Change{name: name, code: code, commit: func() error { return m.store.Activate(name, digest) }})
}

// refusedBefore returns why a stored version is set aside, nil = it is not.
func (m *Manager) refusedBefore(name, digest string) error {
	_, why := m.asideModules()
	for _, source := range []string{fromStore, fromPrevious} {
		if err := why[asideKey{name, source, digest}]; err != nil {
			return fmt.Errorf("%w: %v", admin.ErrRefused, err)
		}
	}
	return nil
}

// minDigest is how many characters of a digest name a version.
const minDigest = 8

// version completes the digest of a stored version.
func (m *Manager) version(name, digest string) (string, error) {
	if len(digest) < minDigest {
		return "", fmt.Errorf("%w: digest %.64q: want at least %d characters of it", admin.ErrRefused, digest, minDigest)
	}
	stored, err := m.store.List()
	if err != nil {
		m.log.Warn("plugin store", "err", err)
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

// Author returns who pushed the stored version of a plugin whose digest begins with
// digest, "" where that is not known or no such version is stored.
func (m *Manager) Author(name, digest string) string {
	digest, err := m.version(name, digest)
	if err != nil {
		return ""
	}
	return m.store.Pusher(name, digest)
}

// Rollback implements admin.Plugins.
func (m *Manager) Rollback(_ context.Context, name string) (*admin.PluginChange, error) {
	m.change.Lock()
	defer m.change.Unlock()
	digest, code, err := m.store.Back(name)
	switch {
	case errors.Is(err, plugstore.ErrUnknown):
		return nil, fmt.Errorf("%w: %v", admin.ErrNotFound, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	if err := m.refusedBefore(name, digest); err != nil {
		return nil, err
	}
	return m.apply(digest, &Change{name: name, code: code, commit: func() error {
		_, err := m.store.Rollback(name)
		return err
	}})
}

// Deactivate implements admin.Plugins.
func (m *Manager) Deactivate(_ context.Context, name string) (*admin.PluginChange, error) {
	m.change.Lock()
	defer m.change.Unlock()
	return m.apply("", &Change{name: name, commit: func() error { return m.store.Deactivate(name) }})
}
