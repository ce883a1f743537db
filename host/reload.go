package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/plugins"
)

// Reload reads the configuration file again and puts its rules in force. On
// error nothing has changed, or with ErrPolicy all but the policy.
func (h *Host) Reload() (*generation, error) {
	h.reloadMu.Lock()
	defer h.reloadMu.Unlock()
	cfg, err := config.Load(h.cfg.File)
	if err != nil {
		return nil, err
	}
	if err := h.fixed(cfg); err != nil {
		return nil, err
	}
	return h.reloadAllLocked(cfg)
}

// reloadAllLocked puts cfg in force with the policy that its directory holds. If
// that is refused, the policy before stays and everything else is put in force:
// a revoked key must not wait for a mended rule. The error is then ErrPolicy,
// beside the generation. The caller holds reloadMu.
func (h *Host) reloadAllLocked(cfg *config.Config) (*generation, error) {
	l := h.rules.Acquire()
	prev := l.Value()
	l.Release()
	if cfg.Policy.Dir == "" || !sameLoading(&prev.cfg.Policy, &cfg.Policy) {
		return h.rebuildLocked(cfg)
	}
	s, refused := h.policies.candidateLocked(cfg, prev, false, false)
	if refused != nil {
		h.policies.failed(refused)
	}
	g, err := h.policies.putLocked(staged{Snapshot: s}, cfg)
	if err == nil && refused != nil {
		err = fmt.Errorf("%w: %w", ErrPolicy, refused)
	}
	return g, err
}

// ErrPolicy says that a reload was done but for its policy.
var ErrPolicy = errors.New("host: the policy is refused and the one before stays in force; everything else is as the files say")

// rebuildLocked builds the rules of cfg, or of the configuration in force if
// that is nil, and puts them in force. The caller holds reloadMu.
func (h *Host) rebuildLocked(cfg *config.Config) (*generation, error) {
	l := h.rules.Acquire()
	defer l.Release()
	prev := l.Value()
	if cfg == nil {
		cfg = prev.cfg
	}
	return h.replaceLocked(cfg, prev, nil)
}

// replaceLocked builds the rules of cfg with a change (may be nil) of the plugins'
// modules and puts them in force. The caller holds reloadMu and a lease on prev.
func (h *Host) replaceLocked(cfg *config.Config, prev *generation, change *plugins.Change) (*generation, error) {
	g, err := h.build(cfg, prev, prev.number+1, change)
	if err != nil {
		return nil, err
	}
	if change != nil {
		if err := change.Commit(); err != nil {
			h.drop(g)
			return nil, err
		}
	}
	if err := h.adopt(g); err != nil {
		return nil, err
	}
	return g, nil
}

// pluginRules is Host as package plugins sees it.
type pluginRules struct{ h *Host }

// Current implements plugins.Rules.
func (r pluginRules) Current() (set *plugins.Set, revision uint64, release func()) {
	l := r.h.rules.Acquire()
	return l.Value().plugins, l.Value().number, l.Release
}

// Apply implements plugins.Rules.
func (r pluginRules) Apply(change *plugins.Change) (set *plugins.Set, revision uint64, err error) {
	r.h.reloadMu.Lock()
	defer r.h.reloadMu.Unlock()
	l := r.h.rules.Acquire()
	defer l.Release()
	g, err := r.h.replaceLocked(l.Value().cfg, l.Value(), change)
	if err != nil {
		return nil, 0, err
	}
	return g.plugins, g.number, nil
}

// fixed refuses changes of what cannot be reloaded.
func (h *Host) fixed(c *config.Config) error {
	var errs []error
	same := func(name string, equal bool) {
		if !equal {
			errs = append(errs, fmt.Errorf("%s: %s cannot be reloaded: restart to change it", c.File, name))
		}
	}
	same("listen", c.Listen == h.cfg.Listen)
	same("admin.http", c.Admin.HTTP == h.cfg.Admin.HTTP)
	same("admin.metrics", c.Admin.Metrics == h.cfg.Admin.Metrics)
	same("state_dir", c.StateDir == h.cfg.StateDir)
	same("plugin_dir", c.PluginDir == h.cfg.PluginDir)
	same("limits.index", c.Limits.Index == h.cfg.Limits.Index)
	same("limits.prompts", c.Limits.Prompts == h.cfg.Limits.Prompts)
	same("limits.decisions", c.Limits.Decisions == h.cfg.Limits.Decisions)
	same("telemetry.decision_log", reflect.DeepEqual(c.Telemetry.DecisionLog, h.cfg.Telemetry.DecisionLog))
	same("telemetry.audit_log", c.Telemetry.AuditLog == h.cfg.Telemetry.AuditLog)
	return errors.Join(errs...)
}

// adopt puts a generation in force: endpoints, then rules, so that a request never
// meets rules whose endpoints are not there. On error it drops it.
func (h *Host) adopt(g *generation) (err error) {
	defer func() {
		if err != nil {
			h.drop(g)
		}
	}()
	var prev *generation
	if g.number > 1 {
		l := h.rules.Acquire()
		prev = l.Value()
		l.Release()
	}
	h.fleet.Apply(g.endpoints)
	h.scaling.Apply(g.scaling)
	h.rules.Swap(g, h.drop)
	h.policies.adopted(g, prev)
	h.plugins.Adopted(g.plugins)
	h.log.Info("rules in force", "generation", g.number, "models", len(g.cfg.Models), "pools", len(g.cfg.Pools))
	return nil
}

// watchEvery is how often the watched files are looked at: an edit is in force
// within it, and a look costs a few stat calls.
const watchEvery = 500 * time.Millisecond

// watchFiles reloads when the configuration, the key file or a plugin's file
// changed, or when asked to.
func (h *Host) watchFiles(ctx context.Context, asked <-chan struct{}) error {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	var seen files
	last := h.digest(&seen)
	for {
		why := "file changed"
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-asked:
			why = "asked"
		case <-t.C:
			d := h.digest(&seen)
			if d == last {
				continue
			}
			last = d
		}
		h.log.Info("reload", "why", why)
		g, err := h.Reload()
		if errors.Is(err, ErrPolicy) { // it is logged already
			h.notePolicy(nil, err, why)
		} else if err != nil {
			h.reloadFailed(err)
			h.note("config:reload", "config", err, "cause", why)
			continue
		}
		h.note("config:reload", "config", nil, "cause", why, "generation", strconv.FormatUint(g.number, 10), "config_sha256", g.cfg.Digest)
	}
}

// reloadFailed logs and counts a reload that changed nothing.
func (h *Host) reloadFailed(err error) {
	h.reloadErrors.Add(1)
	h.log.Error("reload failed, the rules before stay in force", "err", err)
}

// digest is of the watched files' contents; a file that cannot be read counts
// as empty.
func (h *Host) digest(seen *files) (d [sha256.Size]byte) {
	l := h.rules.Acquire()
	defer l.Release()
	cfg := l.Value().cfg
	s := sha256.New()
	names := []string{h.cfg.File, cfg.Identity.APIKeysFile}
	for i := range cfg.Identity.JWT {
		names = append(names, cfg.Identity.JWT[i].JWKSFile)
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		b, _ := os.ReadFile(name)
		fmt.Fprintf(s, "%d:", len(b))
		s.Write(b)
	}
	for i := range cfg.Plugins {
		if name := cfg.Plugins[i].File; name != "" {
			sum := seen.sum(name)
			s.Write(sum[:])
		}
	}
	s.Sum(d[:0])
	return d
}

// reloader is the admin API's face of Reload.
type reloader struct{ h *Host }

// Reload implements admin.Reloader.
func (r reloader) Reload(context.Context) (*admin.ReloadResult, error) {
	l := r.h.rules.Acquire()
	defer l.Release()
	g, err := r.h.Reload()
	if err != nil {
		if !errors.Is(err, ErrPolicy) {
			r.h.reloadFailed(err)
		}
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	return &admin.ReloadResult{
		Revision: g.number, ConfigSHA256: g.cfg.Digest, Models: len(g.cfg.Models), Pools: len(g.cfg.Pools), Changed: changes(l.Value(), g),
	}, nil
}

// changes says what of g is not as in prev, a line each.
func changes(prev, g *generation) []string {
	out := append([]string{}, config.Diff(prev.cfg, g.cfg)...)
	if !prev.identity.SameKeys(g.identity) {
		out = append(out, "API keys: changed")
	}
	if was, now := prev.revision(), g.revision(); was != now {
		out = append(out, fmt.Sprintf("policy: revision %.12s → %.12s", was, now))
	}
	was, now := prev.plugins.Modules(), g.plugins.Modules()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch {
		case was[name] == "":
			out = append(out, fmt.Sprintf("plugin %s: %.12s in force", name, now[name]))
		case was[name] != now[name]:
			out = append(out, fmt.Sprintf("plugin %s: %.12s → %.12s", name, was[name], now[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if now[name] == "" {
			out = append(out, fmt.Sprintf("plugin %s: %.12s no longer used", name, was[name]))
		}
	}
	return append(out, g.plugins.Aside()...)
}

// revision returns that of the policy in force, "none" without one.
func (g *generation) revision() string {
	if g.policy == nil {
		return "none"
	}
	return g.policy.Revision()
}
