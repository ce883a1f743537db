package plugins

import (
	"fmt"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// Set is the plugins of one revision of the rules. It is immutable once planned
// and safe for concurrent use until Release.
type Set struct {
	m            *Manager
	cfg          *config.Config
	plugins      []*plugin // to release
	observers    []*plugin // of plugins, one of a name
	nonObservers map[pluginKey]bool
	aside        map[asideKey]error
	byRole       map[experimentalKey]*plugin
	missing      map[experimentalKey]error
	scored       []*scoring          // plugins that score, by profile
	profiles     []scheduler.Profile // extensions of each
}

// Change replaces the stored or saved module of one plugin in a plan.
type Change struct {
	name   string
	folder bool   // of the watched folder, not of the store
	code   []byte // nil = none
	scores bool   // code has the role score

	commit func() error
}

// Commit stores the change. It is called once, after the plan with the change has
// succeeded and before it is put in force. It takes a few writes to disk.
func (c *Change) Commit() error { return c.commit() }

// Plan loads the plugins that cfg names and returns them. Modules that prev (nil at
// start) uses with the same settings are shared with it; change (may be nil) replaces a
// stored or saved module. It may take seconds and changes nothing; on error all loaded
// plugins are released. The caller calls Release of the Set once.
func (m *Manager) Plan(cfg *config.Config, prev *Set, change *Change) (_ *Set, err error) {
	s := &Set{m: m, cfg: cfg, nonObservers: map[pluginKey]bool{}, aside: map[asideKey]error{},
		byRole: map[experimentalKey]*plugin{}, missing: map[experimentalKey]error{}}
	p := &plan{Manager: m, Set: s, prev: prev, change: change}
	defer func() {
		m.table.release(p.spare)
		if err != nil {
			s.Release()
		}
	}()
	if err := p.configuredObservers(); err != nil {
		return nil, err
	}
	for i := range cfg.Profiles {
		placed, err := p.withFolder(i)
		var out scheduler.Profile
		if err == nil {
			err = p.profile(i, placed, &out)
		}
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", cfg.Profiles[i].Name, err)
		}
		s.profiles = append(s.profiles, out)
	}
	if err := p.experimentalPlugins(); err != nil {
		return nil, err
	}
	s.addObservers()
	return s, nil
}

// Release releases the plugins of the set. Run closes them when no other set uses them.
// A nil Set has no plugins.
func (s *Set) Release() {
	if s != nil {
		s.m.table.release(s.plugins)
	}
}

// Extend adds the scorers, filters and picker of profile i of the configuration to
// out.
func (s *Set) Extend(i int, out *scheduler.Profile) {
	p := &s.profiles[i]
	out.Scorers, out.Filters, out.Picker = p.Scorers, p.Filters, p.Picker
	out.Wants, out.Decided = p.Wants, p.Decided
}

// Modules returns the digests of the plugins in use, in hex, by name.
func (s *Set) Modules() map[string]string {
	out := map[string]string{}
	for _, p := range s.plugins {
		out[p.key.name] = p.key.digest
	}
	return out
}

// uses returns whether a plugin of a name is in use, and the trusted keys that
// signed it.
func (s *Set) uses(name string) (used bool, signer string) {
	for _, p := range s.plugins {
		if p.key.name == name {
			used, signer = true, p.signedBy()
		}
	}
	return used, signer
}

// plan is a Set in the making.
type plan struct {
	*Manager
	*Set
	prev   *Set // nil at start
	change *Change
	spare  []*plugin // loaded on the way, to be released when the plan is made
}
