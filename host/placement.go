package host

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/plugins"
	"github.com/kvasir-router/kvasir/host/rules"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/statedir"
)

// Placement is the profiles of a configuration with their plugins, outside a router:
// for replay.
type Placement struct {
	manager *plugins.Manager
	set     *plugins.Set
	dir     string
	cfg     *config.Config
}

// OpenPlacement loads the plugins that the profiles of cfg name, also pushed ones, from a
// copy of the state directory. The caller calls Close after the last use of a profile.
func OpenPlacement(cfg *config.Config) (_ *Placement, err error) {
	p := &Placement{cfg: cfg}
	if p.dir, err = os.MkdirTemp("", "kvasir-replay-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := statedir.Copy(cfg.StateDir, p.dir); err != nil {
		return nil, err
	}
	if p.manager, err = plugins.New(plugins.Options{StateDir: p.dir, Dir: cfg.PluginDir,
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Endpoints: endpoint.NewStore()}); err != nil {
		return nil, err
	}
	if p.set, err = p.manager.Plan(cfg, nil, nil); err != nil {
		return nil, err
	}
	return p, nil
}

// Profile returns a profile by name, "" = the first. It has no control arm, and nothing
// observes its decisions.
func (p *Placement) Profile(name string) (scheduler.Profile, error) {
	for i := range p.cfg.Profiles {
		c := &p.cfg.Profiles[i]
		if name != "" && c.Name != name {
			continue
		}
		out := rules.Profile(c, i == 0)
		p.set.Extend(i, &out)
		out.Holdout, out.Decided, out.Wants = 0, nil, nil
		return out, nil
	}
	return scheduler.Profile{}, fmt.Errorf("no profile %q in %s", name, p.cfg.File)
}

// Close releases the plugins and removes the copy of the state directory.
func (p *Placement) Close() error {
	var err error
	p.set.Release()
	if p.manager != nil {
		err = p.manager.Close()
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}
