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

// Check plans the rules of cfg as a router does that starts or reloads: files,
// secrets, certificates, tokenizers, plugins with those that were pushed, drivers
// and policy with its tests. It works on a copy of the state directory, so that a
// running router is not touched; it connects to nothing. It may take as long as a
// start without the compile cache. The error joins what was found.
func Check(cfg *config.Config, opt Options) (err error) {
	dir, err := os.MkdirTemp("", "kvasir-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := statedir.Copy(cfg.StateDir, dir); err != nil {
		return err
	}
	h := &Host{opt: opt, log: slog.New(slog.DiscardHandler), now: time.Now, started: time.Now(), cfg: scratch(cfg, dir), rules: rules.New()}
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

// scratch is cfg with dir as its state directory and with nothing that is shared
// with a running router.
func scratch(cfg *config.Config, dir string) *config.Config {
	c := *cfg
	c.StateDir = dir
	c.Telemetry.AuditLog, c.Telemetry.DecisionLog = config.AuditLog{}, config.DecisionLog{}
	c.Limits.Index, c.Limits.Prompts, c.Limits.Decisions = 1<<20, 1<<20, 1<<20
	return &c
}
