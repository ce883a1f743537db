package scaling

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
)

// Plan is the checked scaling of a configuration. It is immutable and may be
// applied any number of times.
type Plan struct {
	cfg    *config.Config
	groups []groupPlan
}

// groupPlan is pools that scale together: one, and those that overflow from it.
type groupPlan struct {
	cfg   []config.Pool
	pools []autoscale.Pool // as cfg, with their drivers
}

// NewPlan checks how the pools of cfg scale and reads the secrets of their
// drivers. Its error names every fault. It changes nothing.
func NewPlan(cfg *config.Config) (*Plan, error) {
	p := &Plan{cfg: cfg}
	var faults []error
	for _, pools := range groupsOf(cfg) {
		g, err := planGroup(pools)
		if err != nil {
			faults = append(faults, err)
		}
		p.groups = append(p.groups, g)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return p, nil
}

// groupsOf lists the pools that scale, each followed by its overflows.
func groupsOf(cfg *config.Config) [][]config.Pool {
	var out [][]config.Pool
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		if !p.Autoscale.On() || p.Autoscale.OverflowOf != "" {
			continue
		}
		g := []config.Pool{*p}
		for j := range cfg.Pools {
			if cfg.Pools[j].Autoscale.OverflowOf == p.Name {
				g = append(g, cfg.Pools[j])
			}
		}
		out = append(out, g)
	}
	return out
}

func planGroup(pools []config.Pool) (groupPlan, error) {
	g := groupPlan{cfg: pools}
	var faults []error
	for i := range pools {
		p := &pools[i]
		d, err := driver(&p.Autoscale.Driver)
		if err != nil {
			faults = append(faults, fmt.Errorf("scaling: pool %q: %w", p.Name, err))
		}
		a := autoscale.Pool{Name: p.Name, Config: controllerConfig(&p.Autoscale), Driver: d, Price: p.Price, Spot: p.Spot}
		if err := a.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("scaling: pool %q: %w", p.Name, err))
		}
		g.pools = append(g.pools, a)
	}
	return g, errors.Join(faults...)
}

func controllerConfig(a *config.Autoscale) autoscale.Config {
	return autoscale.Config{
		Min: a.Min, Max: a.Max, Target: a.Target, DryRun: a.DryRun,
		Window: time.Duration(a.Window), IdleAfter: time.Duration(a.IdleAfter), ColdStart: time.Duration(a.ColdStart),
		DrainTimeout: time.Duration(a.DrainTimeout), WarmTimeout: time.Duration(a.WarmTimeout),
		DriverTimeout: time.Duration(a.Driver.Timeout),
	}
}

// driver returns the configured driver, nil if there is none.
func driver(d *config.Driver) (autoscale.Driver, error) {
	switch {
	case len(d.Command) > 0:
		if _, err := exec.LookPath(d.Command[0]); err != nil {
			return nil, fmt.Errorf("driver command: %w", err)
		}
		return &autoscale.Command{Argv: d.Command}, nil
	case d.Webhook.URL != "":
		secret, err := webhookSecret(d.Webhook.SecretFile)
		if err != nil {
			return nil, err
		}
		return &autoscale.Webhook{URL: d.Webhook.URL, Secret: secret}, nil
	}
	return nil, nil
}

func webhookSecret(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("webhook secret: %w", err)
	}
	secret := strings.TrimSpace(string(b))
	if len(secret) < 16 {
		return nil, fmt.Errorf("webhook secret in %s: want at least 16 characters", file)
	}
	return []byte(secret), nil
}

// names lists the pools of the group.
func (g *groupPlan) names() (out []string) {
	for i := range g.cfg {
		out = append(out, g.cfg[i].Name)
	}
	return out
}

// same reports whether a controller made by a serves b too. What of a pool is not
// part of how it scales changes in place, and plugins come and go.
func same(a, b *groupPlan) bool {
	return slices.EqualFunc(a.pools, b.pools, func(x, y autoscale.Pool) bool {
		x.Price, x.Spot = y.Price, y.Spot
		return reflect.DeepEqual(x, y)
	}) && slices.EqualFunc(a.cfg, b.cfg, func(x, y config.Pool) bool {
		return reflect.DeepEqual(x.Autoscale.Driver, y.Autoscale.Driver)
	})
}
