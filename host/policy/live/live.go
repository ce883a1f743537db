// Package live keeps the policy of a running router: it loads policies from
// directories and from operators, compares them with the live decisions of the policy
// in force, watches the directories, and reports the results.
//
// It puts nothing in force: a [Candidate] becomes part of a revision of the rules
// ([Rules]).
package live

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/policy"
)

// lastGoodFile, in the state directory, holds the last policy that was put in force.
const lastGoodFile = "policy.last"

// Limits of the comparison with live decisions: 1,000 tenants with 8 models and two
// classes each, within the time that an operator waits for an answer.
const (
	replayInputs = 20_000
	replayFor    = 2 * time.Second
)

// Options are what a Keeper uses.
type Options struct {
	StateDir string // holds the last good policy
	Key      []byte // derives the cache salts of decisions
	Log      *slog.Logger
	Now      func() time.Time
}

// Keeper loads policies and keeps the state that outlives them: counts, health, and
// the result of the last attempt. Its methods may be called concurrently.
type Keeper struct {
	opt      Options
	counters policy.Counters
	health   policy.Health
	loads    atomic.Uint64
	failures atomic.Uint64
	logged   atomic.Int64 // Unix seconds of the last decision error that was logged

	mu   sync.Mutex // guards the fields below
	last attempt
	diff *policy.Diff // of the last policy that was compared
}

// attempt is the last attempt to load a policy.
type attempt struct {
	at    time.Time
	err   error  // nil = it is in force
	from  string // directory, pushed or last_good: of the policy in force
	over  string // what the directory held when the policy in force was pushed
	since time.Time
}

// Where the policy in force came from.
const (
	fromDirectory = "directory"
	fromPush      = "pushed"
	fromLastGood  = "last_good"
)

// InForce is the policy of one revision.
type InForce struct {
	Config   *config.Policy
	Snapshot *policy.Snapshot // nil without a policy, and while none could be loaded
	Revision uint64           // number of the revision of the rules
}

// Candidate is a policy that a revision is planned with.
type Candidate struct {
	Snapshot *policy.Snapshot // nil = there is none
	from     string
	over     string // what the directory holds, of a policy that was pushed
}

// Snap returns the candidate's policy, nil of a nil Candidate.
func (c *Candidate) Snap() *policy.Snapshot {
	if c == nil {
		return nil
	}
	return c.Snapshot
}

// New returns a Keeper. It reads nothing yet.
func New(opt Options) *Keeper { return &Keeper{opt: opt} }

// Engine returns the engine that decides with s and the settings of c. Without a
// directory every tenant may use every model.
func (k *Keeper) Engine(c *config.Policy, s *policy.Snapshot) (policy.Engine, error) {
	if c.Dir == "" {
		return policy.NewStatic(policy.StaticConfig{Key: k.opt.Key})
	}
	g := policy.GuardConfig{Key: k.opt.Key, Allow: c.OnError == "allow", MaxStale: time.Duration(c.MaxStale),
		Health: &k.health, OnError: k.decisionFailed}
	if len(c.Fallback.Pools) > 0 {
		g.Fallback = []policy.Constraint{{Label: "pool", Values: c.Fallback.Pools}}
	}
	return policy.NewGuard(s, g), nil
}

// SameLoading reports whether a policy loaded by a would be the same by b.
func SameLoading(a, b *config.Policy) bool {
	return a.Dir == b.Dir && a.DataDir == b.DataDir && a.AllowPublicScope == b.AllowPublicScope &&
		reflect.DeepEqual(a.RequiredLabels, b.RequiredLabels)
}

func (k *Keeper) config(c *config.Policy) policy.Config {
	return policy.Config{Key: k.opt.Key, RequiredLabels: *c.RequiredLabels, AllowPublicScope: c.AllowPublicScope,
		Counters: &k.counters}
}

// decisionFailed logs that the policy gave no decision, at most once a second.
func (k *Keeper) decisionFailed(err error, allowed bool) {
	now := k.opt.Now().Unix()
	if last := k.logged.Load(); last != now && k.logged.CompareAndSwap(last, now) {
		k.opt.Log.Error("policy gave no decision", "allowed", allowed, "err", err)
	}
}

// Load compiles the policy of the directories of c and runs its tests. It reuses
// unchanged parts of before, which may be nil. It does not compare the policy with live
// decisions.
func (k *Keeper) Load(c *config.Policy, before *policy.Snapshot) (*Candidate, error) {
	src, err := policy.ReadDir(c.Dir, c.DataDir)
	if err != nil {
		return nil, err
	}
	s, err := policy.Load(src, k.config(c), before)
	if err != nil {
		return nil, err
	}
	return &Candidate{Snapshot: s, from: fromDirectory}, nil
}

// Start loads the policy of a starting process: the pushed one if the directory has
// not changed since, else that of the directory, else the last good one. If there is
// none, the candidate has no policy and every request is refused.
func (k *Keeper) Start(c *config.Policy) *Candidate {
	kept, keptErr := policy.ReadLastGood(k.lastGood(), k.opt.Key)
	current := keptErr == nil && kept.Over != "" && kept.Over == contents(policy.ReadDir(c.Dir, c.DataDir))
	if !current {
		s, err := k.Load(c, nil)
		if err == nil {
			return s
		}
		k.Refused(err)
	}
	var s *policy.Snapshot
	if keptErr == nil {
		s, keptErr = policy.Load(kept.Source, k.config(c), nil)
	}
	if keptErr != nil {
		if !errors.Is(keptErr, fs.ErrNotExist) {
			k.opt.Log.Error("last good policy not usable", "err", keptErr)
		}
		k.opt.Log.Error("no policy is in force, every request is refused", "dir", c.Dir)
		return &Candidate{}
	}
	if current {
		return &Candidate{Snapshot: s, from: fromPush, over: kept.Over}
	}
	k.opt.Log.Error("policy refused, the last good one is in force",
		"dir", c.Dir, "revision", s.Revision(), "saved", kept.Saved)
	return &Candidate{Snapshot: s, from: fromLastGood}
}

func (k *Keeper) lastGood() string { return filepath.Join(k.opt.StateDir, lastGoodFile) }

// Refused records that a policy was refused.
func (k *Keeper) Refused(err error) {
	now := k.opt.Now()
	k.failures.Add(1)
	k.health.Failed(now)
	k.mu.Lock()
	k.last.at, k.last.err = now, err
	k.mu.Unlock()
	k.opt.Log.Error("policy refused, the previous one stays in force", "err", err)
}

// Adopted records that c is the policy of the revision in force, in place of
// before, which may be nil.
func (k *Keeper) Adopted(c *Candidate, before *policy.Snapshot, revision uint64) {
	s := c.Snap()
	if s == nil || s == before {
		return
	}
	now := k.opt.Now()
	k.mu.Lock()
	k.last.since = now
	if k.last.from = c.from; c.from != fromLastGood {
		k.last = attempt{at: now, from: c.from, over: c.over, since: now}
	}
	k.mu.Unlock()
	k.loads.Add(1)
	if c.from == fromLastGood {
		return
	}
	k.health.Fine()
	if err := policy.SaveLastGood(k.lastGood(), k.opt.Key, s, c.over, now); err != nil {
		k.opt.Log.Warn("policy in force not saved for the next start", "err", err)
	}
	k.opt.Log.Info("policy in force", "revision", s.Revision(), "tests", s.Tests(), "rules", revision)
}

// FromDir loads the policy of the directories of c and compares it with the live
// decisions of base. It returns nil without an error if that policy is already in
// force and, unless asked, if a policy was pushed and the directory has not changed
// since. It may take seconds and puts nothing in force.
func (k *Keeper) FromDir(c *config.Policy, base InForce, asked, force bool) (*Candidate, error) {
	src, err := policy.ReadDir(c.Dir, c.DataDir)
	if err != nil {
		return nil, err
	}
	if over := k.over(); !asked && over != "" && over == contents(src, nil) {
		return nil, nil
	}
	if before := base.Snapshot; before != nil && SameLoading(base.Config, c) && src.Equal(before.Source()) {
		k.unchanged()
		return nil, nil
	}
	s, err := k.compare(src, c, base.Snapshot, force)
	if err != nil {
		return nil, err
	}
	return &Candidate{Snapshot: s, from: fromDirectory}, nil
}

// FromFiles loads a pushed policy and compares it with the live decisions of base. Once
// in force, it stays in force until the directory changes, even across a restart. It
// may take seconds and puts nothing in force.
func (k *Keeper) FromFiles(files map[string][]byte, base InForce, force bool) (*Candidate, error) {
	over := contents(policy.ReadDir(base.Config.Dir, base.Config.DataDir))
	src, err := policy.FromFiles(files)
	if err != nil {
		return nil, err
	}
	s, err := k.compare(src, base.Config, base.Snapshot, force)
	if err != nil {
		return nil, err
	}
	return &Candidate{Snapshot: s, from: fromPush, over: over}, nil
}

// compare loads a policy and compares it with the live decisions of before, which
// may be nil.
func (k *Keeper) compare(
	src *policy.Source, c *config.Policy, before *policy.Snapshot, force bool,
) (*policy.Snapshot, error) {
	s, err := policy.Load(src, k.config(c), before)
	if err != nil || before == nil {
		return s, err
	}
	d := policy.Compare(before, s, before.Live(replayInputs), replayFor)
	k.mu.Lock()
	k.diff = d
	k.mu.Unlock()
	g := &c.Gates
	gates := policy.Gates{AllowToDeny: *g.AllowToDeny, DenyToAllow: *g.DenyToAllow, Widened: *g.Widened, Errors: *g.Errors}
	if err := gates.Check(d); err != nil && !force {
		return nil, err
	}
	return s, nil
}

// unchanged records that the directory holds the policy in force, for example after an
// invalid edit was undone.
func (k *Keeper) unchanged() {
	k.health.Fine()
	k.mu.Lock()
	k.last.at, k.last.err, k.last.from, k.last.over = k.opt.Now(), nil, fromDirectory, ""
	k.mu.Unlock()
}

// over returns the contents of the directory when the policy in force was pushed, ""
// if it was not pushed.
func (k *Keeper) over() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last.over
}

// contents identifies the files that were read, or the error.
func contents(src *policy.Source, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	rules, data := src.Digest()
	return rules + data
}
