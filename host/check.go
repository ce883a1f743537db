package host

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/policy/live"
	"github.com/kvasir-router/kvasir/host/rules"
	"github.com/kvasir-router/kvasir/host/statedir"
)

// Check makes the plan that a start or a reload with cfg makes: files, secrets,
// certificates, tokenizers, plugins including pushed ones, drivers, and the policy with
// its tests. It works on a copy of the state directory, so that a running router is
// not affected, and opens no connection. It may take as long as a start without a
// compile cache. The error joins everything that is wrong.
func Check(cfg *config.Config, opt Options) (err error) {
	dir, err := os.MkdirTemp("", "kvasir-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := statedir.Copy(cfg.StateDir, dir); err != nil {
		return err
	}
	h := &Host{opt: opt, log: slog.New(slog.DiscardHandler), now: time.Now, started: time.Now(),
		cfg: scratch(cfg, dir), rules: rules.New()}
	defer func() {
		if h.audit != nil {
			h.audit.Close()
		}
		err = errors.Join(err, h.closeRules())
	}()
	if err := h.openState(); err != nil {
		return err
	}
	h.store = endpoint.NewStore()
	if err := h.openPlugins(); err != nil {
		return err
	}
	if err := h.openStores(); err != nil {
		return err
	}
	_, tlsErr := cfg.Listen.TLS.Server()
	h.policies = live.New(live.Options{StateDir: dir, Key: h.saltKey, Log: h.log, Now: h.clock})
	return errors.Join(tlsErr, h.rules.Check(h.ruleOptions()))
}

// scratch returns cfg with the state directory dir and without files that a running
// router writes.
func scratch(cfg *config.Config, dir string) *config.Config {
	c := *cfg
	c.StateDir = dir
	c.Telemetry.AuditLog, c.Telemetry.DecisionLog = config.AuditLog{}, config.DecisionLog{}
	c.Limits.Index, c.Limits.Prompts, c.Limits.Decisions = 1<<20, 1<<20, 1<<20
	return &c
}
