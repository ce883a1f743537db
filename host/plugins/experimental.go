package plugins

import (
	"fmt"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// experimentalKey identifies the use of a plugin in an experimental role.
type experimentalKey struct {
	name string
	role wasm.Role
}

// experimental returns the plugin of a name in an experimental role, or why there is
// none.
func (s *Set) experimental(name string, role wasm.Role) (*plugin, error) {
	k := experimentalKey{name, role}
	if p := s.byRole[k]; p != nil {
		return p, nil
	}
	if why := s.missing[k]; why != nil {
		return nil, why
	}
	return nil, fmt.Errorf("plugins: no module for plugin %s: push it", name)
}

// useExperimental loads a plugin in an experimental role. A plugin without a module is
// used once it is pushed; if its modules are set aside, the reason is kept in missing.
func (pl *plan) useExperimental(name string, role wasm.Role) error {
	k := experimentalKey{name, role}
	if pl.byRole[k] != nil || pl.missing[k] != nil {
		return nil
	}
	c := declared(pl.cfg, name)
	p, why, err := pl.load(&c, "", false, func(p *plugin) error {
		if !p.Has(role) {
			return fmt.Errorf("its manifest has no role %v", role)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case p != nil:
		pl.byRole[k] = p
		pl.plugins = append(pl.plugins, p)
	case why != nil:
		pl.missing[k] = why
	default:
		pl.log.Warn("plugin has no module: using the built-in until it is pushed", "plugin", name, "role", role)
	}
	return nil
}

// experimentalPlugins loads the plugins that pools name.
func (pl *plan) experimentalPlugins() error {
	for i := range pl.cfg.Pools {
		p := &pl.cfg.Pools[i]
		for _, use := range experimentalUses(p) {
			if err := pl.useExperimental(use.name, use.role); err != nil {
				return fmt.Errorf("pool %s: %w", p.Name, err)
			}
		}
	}
	return nil
}

// experimentalUses lists the plugins a pool names in experimental roles.
func experimentalUses(p *config.Pool) (out []experimentalKey) {
	if p.Autoscale.Plugin != "" {
		out = append(out, experimentalKey{p.Autoscale.Plugin, wasm.Autoscale})
	}
	if p.Parser.Plugin != "" {
		out = append(out, experimentalKey{p.Parser.Plugin, wasm.BackendParse})
	}
	if p.Discover.Plugin != "" {
		out = append(out, experimentalKey{p.Discover.Plugin, wasm.Discover})
	}
	return out
}
