package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/wasm"
)

const (
	// defaultTrialTime suffices for a scorer in Go on a busy machine (2 s on an idle
	// one); more would keep other pushers waiting.
	defaultTrialTime = 10 * time.Second
	// waitTrial is how long a trial may wait for those of other pushers, which run
	// one after another: that of three of them.
	waitTrial = 3
)

// errBusy is returned while another module of the same pusher is tried.
var errBusy = errors.New("another module of the same pusher is being tried: push again when it is done")

// trials limits the resources of modules that are tried. No lock is held during a trial.
type trials struct {
	mu sync.Mutex // guards by
	by map[string]bool
}

// trialTime bounds the time on the clock of one trial.
func trialTime(cfg *config.Config) time.Duration {
	return cmp.Or(time.Duration(cfg.PluginStore.Trial), defaultTrialTime)
}

// begin registers a trial of a pusher. The caller calls end when it is done. It returns
// errBusy while another trial of the same pusher runs.
func (t *trials) begin(pusher string) (end func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by[pusher] {
		return nil, errBusy
	}
	t.by[pusher] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.by, pusher)
	}, nil
}

// try compiles and checks a module with each of the settings by which the rules in
// force would load it, its own first. The caller must release the plugins.
func (m *Manager) try(ctx context.Context, name, source, pusher string, code []byte) ([]*plugin, error) {
	end, err := m.trials.begin(pusher)
	if err != nil {
		return nil, err
	}
	defer end()
	set, _, release := m.rules.Current()
	cfg := set.cfg
	release()
	most := trialTime(cfg)
	ctx, cancel := context.WithTimeout(ctx, (1+waitTrial)*most)
	defer cancel()
	c, digest := declared(cfg, name), moduleOf(source, code, nil).digest
	var out []*plugin
	for _, own := range configsOf(cfg, name) {
		opt := trialOptions{check: len(out) == 0, most: most}
		p, err := m.acquireSigned(ctx, cfg, keyOf(&c, digest, own), source, code, opt)
		if err != nil {
			m.table.release(out)
			if ctx.Err() != nil {
				err = fmt.Errorf("not compiled and checked within %v, including the wait for other pushers", (1+waitTrial)*most)
			}
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// configsOf returns the configs that a plugin is loaded with, its own ("") first.
func configsOf(cfg *config.Config, name string) []config.JSON {
	out := []config.JSON{""}
	for i := range cfg.Profiles {
		for _, s := range cfg.Profiles[i].Scorers {
			if s.Plugin == name && !slices.Contains(out, s.Config) {
				out = append(out, s.Config)
			}
		}
	}
	return out
}

// trialOptions control the load of a module that is not yet accepted; the zero value is
// for accepted ones.
type trialOptions struct {
	check bool          // as `kvasir plugin check` does
	most  time.Duration // time on the clock, 0 = the engine's bound
}

func (o *trialOptions) add(opt wasm.Options) wasm.Options {
	opt.Check, opt.TrialTime = o.check, o.most
	return opt
}
