package rules

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/policy/live"
)

// ErrPolicy reports that a reload put everything in force except its policy.
var ErrPolicy = errors.New("rules: policy refused, the previous one stays in force; " +
	"all other changes are in force")

// Reload reads the configuration file again and puts its rules in force. It first
// withdraws what the files no longer grant, which stays withdrawn on error. Otherwise
// an error changes nothing; with ErrPolicy everything except the policy has changed.
// asked reports that an operator requested the reload.
func (m *Manager) Reload(asked bool) (*admin.ReloadResult, error) {
	out, _, err := m.reload(asked)
	return out, err
}

func (m *Manager) reload(asked bool) (out *admin.ReloadResult, again bool, err error) {
	withdrawn, again := m.Withdraw(asked)
	out = &admin.ReloadResult{Withdrawn: withdrawn, Restart: []string{}}
	file := &filePolicy{m: m}
	before := m.Acquire()
	defer before.Release()
	r, err := m.replace(func(base *Revision) (planInput, error) {
		loaded, err := config.Load(m.opt.Boot.File)
		if err != nil {
			return planInput{}, err
		}
		m.tried.Store(loaded)
		cfg, waiting := config.Settle(m.opt.Boot, loaded)
		out.Restart = append([]string{}, waiting...)
		in := planInput{cfg: cfg, credentials: true}
		if in.policy, err = file.load(base, cfg); err != nil {
			return planInput{}, err
		}
		if file.refused != nil {
			in.disabled = base.Identity.Disabled()
		}
		return in, nil
	})
	if err != nil {
		return out, again, err
	}
	out.Revision, out.ConfigSHA256 = r.Number, r.Config.Digest
	out.Models, out.Pools = len(r.Config.Models), len(r.Config.Pools)
	out.Changed = changes(before.Value(), r)
	if file.refused != nil {
		err = fmt.Errorf("%w: %w", ErrPolicy, file.refused)
	}
	return out, again, err
}

// filePolicy loads the policy when a configuration is read again.
type filePolicy struct {
	m       *Manager
	base    *live.Candidate // the policy on which the rest was loaded
	loaded  *live.Candidate
	refused error // why the policy of the directory was refused
	done    bool
}

// load returns the policy for cfg. A refused policy does not refuse the
// configuration: the previous one stays. A second call loads again only if the policy
// of base differs from that of the first.
func (p *filePolicy) load(base *Revision, cfg *config.Config) (*live.Candidate, error) {
	if cfg.Policy.Dir == "" {
		return nil, nil
	}
	if p.done && p.base == base.policy {
		return p.loaded, nil
	}
	keeper := p.m.opt.Policies
	p.refused = nil
	var err error
	if !live.SameLoading(&base.Config.Policy, &cfg.Policy) {
		if p.loaded, err = keeper.Load(&cfg.Policy, base.Policy()); err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
	} else {
		c, err := keeper.FromDir(&cfg.Policy, base.inForce(), false, false)
		if err != nil {
			p.refused = err
			keeper.Refused(err)
		}
		if p.loaded = c; c == nil {
			p.loaded = base.policy
		}
	}
	p.base, p.done = base.policy, true
	return p.loaded, nil
}

// watchEvery is the polling interval of the watched files: an edit is in force within
// it and the time of planning; a poll costs a few stat calls.
const watchEvery = 500 * time.Millisecond

// Watch reloads when the configuration or a file that it names changed, or when
// asked to, until ctx ends.
func (m *Manager) Watch(ctx context.Context, asked <-chan struct{}) error {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	var seen files
	last := m.digest(&seen)
	again := false
	for {
		why := "file changed"
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-asked:
			why = "asked"
		case <-t.C:
			d := m.digest(&seen)
			if d == last {
				if again {
					_, again = m.Withdraw(false)
				}
				continue
			}
			last = d
		}
		again = m.reloadNoted(why)
	}
}

// reloadNoted reloads, and logs and audits the result.
func (m *Manager) reloadNoted(why string) (again bool) {
	m.opt.Log.Info("reload", "cause", why)
	out, again, err := m.reload(why == "asked")
	if errors.Is(err, ErrPolicy) { // already logged
		live.Note(m.opt.Note, live.InForce{}, err, why)
	} else if err != nil {
		m.Failed(err)
		m.opt.Note("config:reload", "config", err, "cause", why)
		return again
	}
	for _, s := range out.Restart {
		m.opt.Log.Warn("a change waits for a restart", "what", s)
	}
	m.opt.Note("config:reload", "config", nil, "cause", why,
		"revision", strconv.FormatUint(out.Revision, 10), "config_sha256", out.ConfigSHA256)
	return again
}

// Failed logs and counts a reload that changed nothing.
func (m *Manager) Failed(err error) {
	m.errors.Add(1)
	m.opt.Log.Error("reload failed, the previous rules stay in force", "err", err)
}

// digest returns a digest of the watched files' contents; an unreadable file counts as
// empty. The files of a refused configuration are watched too, so that fixing one of
// them triggers a reload.
func (m *Manager) digest(seen *files) (d [sha256.Size]byte) {
	l := m.Acquire()
	defer l.Release()
	s := sha256.New()
	for _, name := range append([]string{m.opt.Boot.File}, watched(l.Value().Config, m.tried.Load())...) {
		b, _ := os.ReadFile(name)
		fmt.Fprintf(s, "%q %d:", name, len(b))
		s.Write(b)
	}
	for _, cfg := range []*config.Config{l.Value().Config, m.tried.Load()} {
		for i := range cfg.Plugins {
			if name := cfg.Plugins[i].File; name != "" {
				sum := seen.sum(name)
				s.Write(sum[:])
			}
		}
	}
	s.Sum(d[:0])
	return d
}

// watched lists the small files that configurations name, each once.
func watched(cfgs ...*config.Config) (out []string) {
	have := map[string]bool{"": true}
	add := func(name string) {
		if !have[name] {
			have[name] = true
			out = append(out, name)
		}
	}
	for _, c := range cfgs {
		add(c.Identity.APIKeysFile)
		add(c.Admin.TokenFile)
		add(c.Listen.TLS.CertFile)
		add(c.Listen.TLS.KeyFile)
		for i := range c.Identity.JWT {
			add(c.Identity.JWT[i].JWKSFile)
		}
		for i := range c.Pools {
			add(c.Pools[i].Credentials.BearerFile)
			add(c.Pools[i].Autoscale.Driver.Webhook.SecretFile)
		}
	}
	return out
}

// Reloader implements the admin API's reload.
type Reloader struct{ Manager *Manager }

// Reload implements admin.Reloader.
func (a Reloader) Reload(context.Context) (*admin.ReloadResult, error) {
	out, err := a.Manager.Reload(true)
	if err != nil {
		if !errors.Is(err, ErrPolicy) {
			a.Manager.Failed(err)
		}
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	return out, nil
}
