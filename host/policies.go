package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/policy"
)

// lastGoodFile is the policy that was put in force last, in the state directory.
const lastGoodFile = "policy.last"

// What a reload replays: enough for 1,000 tenants with 8 models and two classes
// each, within the time that a person waits for an answer.
const (
	replayInputs = 20_000
	replayFor    = 2 * time.Second
)

// policies loads what decides, and remembers what came of it. What it holds
// outlives generations.
type policies struct {
	h        *Host
	counters policy.Counters
	health   policy.Health
	loads    atomic.Uint64
	failures atomic.Uint64
	told     atomic.Int64 // Unix seconds of the last decision error that was logged

	staged staged // for the generation that is being built; guarded by Host.reloadMu

	mu   sync.Mutex // guards the fields below
	last attempt
	diff *policy.Diff // of the last policy that was compared
}

// staged is a policy that a generation is built with.
type staged struct {
	*policy.Snapshot
	over string // what the directory holds, of a policy that was pushed
}

// attempt is the last time that a policy was to be loaded.
type attempt struct {
	at       time.Time
	err      error  // nil = it is in force
	from     string // directory, pushed or last_good: of the policy in force
	over     string // what the directory held when the policy in force was pushed
	since    time.Time
	revision string
}

// Where the policy in force came from.
const (
	fromDirectory = "directory"
	fromPush      = "pushed"
	fromLastGood  = "last_good"
)

// engine returns what decides by cfg, and its policy if it has one: the staged
// one, the one of prev if cfg asks for the same, or the one in the directory. At
// the start the last good one stands in for one that cannot be loaded, and where
// there is none nothing is decided until there is. The caller holds reloadMu or
// is New.
func (p *policies) engine(cfg *config.Config, prev *generation) (policy.Engine, *policy.Snapshot, error) {
	if cfg.Policy.Dir == "" {
		e, err := policy.NewStatic(policy.StaticConfig{Key: p.h.saltKey})
		return e, nil, err
	}
	s := p.staged.Snapshot
	switch {
	case s != nil:
	case prev == nil:
		s = p.start(cfg)
	case sameLoading(&prev.cfg.Policy, &cfg.Policy):
		s = prev.policy
	default:
		var err error
		if s, err = p.load(cfg, prev); err != nil {
			return nil, nil, fmt.Errorf("policy: %w", err)
		}
	}
	return policy.NewGuard(s, p.guard(cfg)), s, nil
}

// sameLoading reports whether a policy loaded by a would be the same by b.
func sameLoading(a, b *config.Policy) bool {
	return a.Dir == b.Dir && a.DataDir == b.DataDir && a.AllowPublicScope == b.AllowPublicScope && reflect.DeepEqual(a.RequiredLabels, b.RequiredLabels)
}

func (p *policies) guard(cfg *config.Config) policy.GuardConfig {
	c := &cfg.Policy
	g := policy.GuardConfig{Key: p.h.saltKey, Allow: c.OnError == "allow", MaxStale: time.Duration(c.MaxStale), Health: &p.health, OnError: p.decisionFailed}
	if len(c.Fallback.Pools) > 0 {
		g.Fallback = []policy.Constraint{{Label: "pool", Values: c.Fallback.Pools}}
	}
	return g
}

func (p *policies) config(c *config.Policy) policy.Config {
	return policy.Config{Key: p.h.saltKey, RequiredLabels: *c.RequiredLabels, AllowPublicScope: c.AllowPublicScope, Counters: &p.counters}
}

// decisionFailed logs what the policy could not decide, at most once a second.
func (p *policies) decisionFailed(err error, allowed bool) {
	now := p.h.now().Unix()
	if last := p.told.Load(); last != now && p.told.CompareAndSwap(last, now) {
		p.h.log.Error("the policy gives no decision", "allowed", allowed, "err", err)
	}
}

// load reads and compiles the policy of cfg.
func (p *policies) load(cfg *config.Config, prev *generation) (*policy.Snapshot, error) {
	src, err := policy.ReadDir(cfg.Policy.Dir, cfg.Policy.DataDir)
	if err != nil {
		return nil, err
	}
	var before *policy.Snapshot
	if prev != nil {
		before = prev.policy
	}
	return policy.Load(src, p.config(&cfg.Policy), before)
}

// start loads the policy of a process that begins: the one that was pushed if
// the directory is as it was then, else the directory's, else the last good one.
func (p *policies) start(cfg *config.Config) *policy.Snapshot {
	kept, keptErr := policy.ReadLastGood(p.lastGood(), p.h.saltKey)
	stands := keptErr == nil && kept.Over != "" && kept.Over == contents(policy.ReadDir(cfg.Policy.Dir, cfg.Policy.DataDir))
	if !stands {
		s, err := p.load(cfg, nil)
		if err == nil {
			return s
		}
		p.failed(err)
	}
	var s *policy.Snapshot
	if keptErr == nil {
		s, keptErr = policy.Load(kept.Source, p.config(&cfg.Policy), nil)
	}
	if keptErr != nil {
		if !errors.Is(keptErr, fs.ErrNotExist) {
			p.h.log.Error("the last good policy cannot be used", "err", keptErr)
		}
		p.h.log.Error("no policy is in force: every request is refused until there is one", "dir", cfg.Policy.Dir)
		return nil
	}
	if stands {
		p.staged = staged{s, kept.Over}
		return s
	}
	p.h.log.Error("the policy is refused: the last good one of before is in force", "dir", cfg.Policy.Dir, "revision", s.Revision(), "saved", kept.Saved)
	p.mu.Lock()
	p.last.from = fromLastGood
	p.mu.Unlock()
	return s
}

func (p *policies) lastGood() string { return filepath.Join(p.h.cfg.StateDir, lastGoodFile) }

// failed notes that a policy was refused.
func (p *policies) failed(err error) {
	now := p.h.now()
	p.failures.Add(1)
	p.health.Failed(now)
	p.mu.Lock()
	p.last.at, p.last.err = now, err
	p.mu.Unlock()
	p.h.log.Error("policy refused, the one before stays in force", "err", err)
}

// adopted notes the policy of a generation that is in force.
func (p *policies) adopted(g, prev *generation) {
	if g.policy == nil || prev != nil && prev.policy == g.policy {
		return
	}
	now := p.h.now()
	p.mu.Lock()
	stale := p.last.from == fromLastGood && prev == nil
	p.last.since, p.last.revision = now, g.policy.Revision()
	over := ""
	if !stale {
		p.last = attempt{at: now, from: fromDirectory, since: now, revision: g.policy.Revision()}
		if p.staged.Snapshot == g.policy && p.staged.over != "" {
			over = p.staged.over
			p.last.from, p.last.over = fromPush, over
		}
	}
	p.staged = staged{} // start leaves it
	p.mu.Unlock()
	p.loads.Add(1)
	if stale {
		return
	}
	p.health.Fine()
	if err := policy.SaveLastGood(p.lastGood(), p.h.saltKey, g.policy, over, now); err != nil {
		p.h.log.Warn("the policy in force cannot be kept for the next start", "err", err)
	}
	p.h.log.Info("policy in force", "revision", g.policy.Revision(), "tests", g.policy.Tests(), "generation", g.number)
}

// candidateLocked loads what the directory holds and compares it with the live
// decisions. It returns nil without an error if that is in force already, and
// unless asked for it also if a policy was pushed and the directory is as it was
// then. The caller holds reloadMu.
func (p *policies) candidateLocked(cfg *config.Config, prev *generation, asked, force bool) (*policy.Snapshot, error) {
	src, err := policy.ReadDir(cfg.Policy.Dir, cfg.Policy.DataDir)
	if err != nil {
		return nil, err
	}
	before := prev.policy
	if over := p.over(); !asked && over != "" && over == contents(src, nil) {
		return nil, nil
	}
	if before != nil && sameLoading(&prev.cfg.Policy, &cfg.Policy) && src.Equal(before.Source()) {
		p.unchanged()
		return nil, nil
	}
	return p.vetLocked(src, cfg, before, force)
}

// vetLocked loads a policy and compares it with the live decisions of before,
// which may be nil.
func (p *policies) vetLocked(src *policy.Source, cfg *config.Config, before *policy.Snapshot, force bool) (*policy.Snapshot, error) {
	s, err := policy.Load(src, p.config(&cfg.Policy), before)
	if err != nil || before == nil {
		return s, err
	}
	d := policy.Compare(before, s, before.Live(replayInputs), replayFor)
	p.mu.Lock()
	p.diff = d
	p.mu.Unlock()
	g := &cfg.Policy.Gates
	if err := (policy.Gates{AllowToDeny: *g.AllowToDeny, DenyToAllow: *g.DenyToAllow, Widened: *g.Widened, Errors: *g.Errors}).Check(d); err != nil && !force {
		return nil, err
	}
	return s, nil
}

// unchanged notes that the directory holds what is in force, as it does again
// after a faulty edit was taken back.
func (p *policies) unchanged() {
	p.health.Fine()
	p.mu.Lock()
	p.last.at, p.last.err, p.last.from, p.last.over = p.h.now(), nil, fromDirectory, ""
	p.mu.Unlock()
}

// over returns what the directory held when the policy in force was pushed, ""
// if it was not.
func (p *policies) over() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.over
}

// reload puts the policy of the directory in force, in a generation of its own.
// On error nothing has changed.
func (p *policies) reload(why string, force bool) (*generation, error) {
	return p.replace(why, "", func(prev *generation) (*policy.Snapshot, error) {
		return p.candidateLocked(prev.cfg, prev, true, force)
	})
}

// push puts another policy than the directory's in force, until the directory
// changes; also a restart keeps it. On error nothing has changed.
func (p *policies) push(files map[string][]byte, force bool) (*generation, error) {
	l := p.h.rules.Acquire()
	c := l.Value().cfg.Policy
	l.Release()
	over := contents(policy.ReadDir(c.Dir, c.DataDir))
	return p.replace("pushed", over, func(prev *generation) (*policy.Snapshot, error) {
		src, err := policy.FromFiles(files)
		if err != nil {
			return nil, err
		}
		return p.vetLocked(src, prev.cfg, prev.policy, force)
	})
}

// replace builds a generation with the policy that load returns; nil = the one in
// force.
func (p *policies) replace(why, over string, load func(prev *generation) (*policy.Snapshot, error)) (*generation, error) {
	h := p.h
	h.reloadMu.Lock()
	defer h.reloadMu.Unlock()
	l := h.rules.Acquire()
	prev := l.Value()
	l.Release()
	if prev.cfg.Policy.Dir == "" {
		return nil, errors.New("host: the configuration has no policy.dir")
	}
	s, err := load(prev)
	if err == nil && s == nil {
		return prev, nil
	}
	var g *generation
	if err == nil {
		h.log.Info("policy reload", "why", why)
		g, err = p.putLocked(staged{s, over}, nil)
	}
	if err != nil {
		p.failed(err)
	}
	return g, err
}

// putLocked builds and adopts a generation with the policy s. The caller holds
// reloadMu.
func (p *policies) putLocked(s staged, cfg *config.Config) (*generation, error) {
	p.staged = s
	defer func() { p.staged = staged{} }()
	return p.h.rebuildLocked(cfg)
}
