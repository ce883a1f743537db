package rules

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/fleet"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/internal/snapshot"
	"github.com/kvasir-router/kvasir/host/plugins"
	"github.com/kvasir-router/kvasir/host/policy/live"
	"github.com/kvasir-router/kvasir/host/scaling"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// Options are the dependencies of a Manager. All fields except LogLevel are required.
type Options struct {
	Boot    *config.Config // as the process was started; values that wait for a restart are taken from it
	Log     *slog.Logger
	Now     func() time.Time
	Started time.Time

	Identity *identity.Store
	Pepper   []byte // of the API keys
	State    *scheduler.State
	Plugins  *plugins.Manager
	Policies *live.Keeper
	Fleet    *fleet.Fleet
	Scaling  *scaling.Manager

	// AdminToken returns the admin token of a configuration.
	AdminToken func(*config.Config) (string, error)
	// Note records an action of the router itself in the audit log.
	Note live.NoteFunc
	// LogLevel is set to the level of the revision in force. Unlike the other fields it
	// may be nil: the level stays.
	LogLevel *slog.LevelVar
}

// Manager owns the revision in force. Its methods may be called concurrently once
// Start has returned.
type Manager struct {
	opt     Options
	current snapshot.Holder[Revision]
	errors  atomic.Uint64                 // reloads that changed nothing
	tried   atomic.Pointer[config.Config] // the last configuration that could be read

	// turn is held while a plan is committed and reconciled, never while a plan is made.
	// It is locked before mu.
	turn sync.Mutex
	// mu is held during a change of credentials, including the write of the key file, and
	// during the swap of a commit. Revocations wait for it, so it is never held for long.
	mu      sync.Mutex
	epoch   uint64               // changes of credentials; guarded by mu
	pending map[string]time.Time // revocations that are not in the key file, by id; guarded by mu
}

// New returns a Manager without rules.
func New() *Manager { return &Manager{pending: map[string]time.Time{}} }

// Start plans the first revision and puts it in force. It is called once, before
// the other methods.
func (m *Manager) Start(opt Options) error {
	m.opt = opt
	m.tried.Store(opt.Boot)
	in := planInput{cfg: opt.Boot, credentials: true}
	if opt.Boot.Policy.Dir != "" {
		in.policy = opt.Policies.Start(&opt.Boot.Policy)
	}
	r, err := m.plan(in)
	if err != nil {
		return err
	}
	c := opt.Fleet.Begin(r.fleet)
	c.Switch()
	m.swap(r)
	m.reconcile(r, nil, c)
	return nil
}

// Check plans the first revision and puts nothing in force. The error joins everything
// that a start or a reload refuses, and everything that a start replaces by a fallback:
// modules that do not load, and a refused policy. It is called instead of Start.
func (m *Manager) Check(opt Options) error {
	m.opt = opt
	in := planInput{cfg: opt.Boot, credentials: true}
	var refused error
	if c := &opt.Boot.Policy; c.Dir != "" {
		if in.policy, refused = opt.Policies.Load(c, nil); refused != nil {
			refused = fmt.Errorf("policy: %w", refused)
			in.policy = &live.Candidate{}
		}
	}
	r, err := m.plan(in)
	if err != nil {
		return errors.Join(refused, err)
	}
	defer r.release()
	return errors.Join(append(r.Plugins.AsideErrors(), refused)...)
}

// Close releases the revision in force, after the last use of the manager.
func (m *Manager) Close() { m.current.Swap(nil, nil) }

// Acquire returns a lease on the revision in force.
func (m *Manager) Acquire() snapshot.Lease[Revision] { return m.current.Acquire() }

// Credentials returns the credentials in force.
func (m *Manager) Credentials() *identity.Set {
	l := m.Acquire()
	defer l.Release()
	return l.Value().Identity
}

// Failures returns the number of refused reloads.
func (m *Manager) Failures() uint64 { return m.errors.Load() }

// errMoved reports that the base of a plan is no longer in force.
var errMoved = errors.New("rules: the base of the plan is no longer in force")

// replace plans on the revision in force and commits the plan. It tries again if
// another change was committed in the meantime. prepare returns the input of a plan; it
// is called for each try after the epoch of credentials was read, without a lock,
// except that the last tries hold turn. What one try compiled is kept for the next.
func (m *Manager) replace(prepare func(base *Revision) (planInput, error)) (*Revision, error) {
	var kept *Revision
	defer func() {
		if kept != nil {
			kept.release()
		}
	}()
	for try := 0; ; try++ {
		r, err := m.try(try, prepare, &kept)
		if !errors.Is(err, errMoved) {
			return r, err
		}
	}
}

// patience is the number of tries before other plans have to wait: a repeated try
// uses what was compiled before and takes milliseconds.
const patience = 5

// try is one try of replace. kept is the plan of the previous try; a failed try
// replaces it by its own.
func (m *Manager) try(n int, prepare func(base *Revision) (planInput, error), kept **Revision) (*Revision, error) {
	if n >= patience {
		m.turn.Lock()
		defer m.turn.Unlock()
	}
	epoch := m.credentialEpoch()
	l := m.Acquire()
	defer l.Release()
	in, err := prepare(l.Value())
	if err != nil {
		return nil, err
	}
	in.base = l.Value()
	r, err := m.plan(in)
	if err != nil {
		return nil, err
	}
	if n < patience {
		m.turn.Lock()
		defer m.turn.Unlock()
	}
	if err := m.commit(r, in, epoch); err != nil {
		if *kept != nil {
			(*kept).release()
		}
		*kept = r
		if !errors.Is(err, errMoved) {
			return nil, err
		}
		return nil, errMoved
	}
	return r, nil
}

func (m *Manager) credentialEpoch() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// commit puts a plan in force. On error nothing has changed, except that a change of
// modules may be stored. The caller holds turn.
func (m *Manager) commit(r *Revision, in planInput, epoch uint64) error {
	l := m.Acquire()
	defer l.Release()
	if l.Value().shared != in.base.shared || in.credentials && m.credentialEpoch() != epoch {
		return errMoved
	}
	if in.change != nil {
		if err := in.change.Commit(); err != nil {
			return err
		}
	}
	c := m.opt.Fleet.Begin(r.fleet)
	if err := m.commitSwap(r, in, epoch, c); err != nil {
		c.End()
		return err
	}
	m.reconcile(r, in.base, c)
	return nil
}

// commitSwap publishes r with the attributes of its endpoints, unless credentials
// changed after the plan read them.
func (m *Manager) commitSwap(r *Revision, in planInput, epoch uint64, c *fleet.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if in.credentials {
		if m.epoch != epoch {
			return errMoved
		}
	} else {
		l := m.Acquire() // credentials may have changed since the plan was made
		defer l.Release()
		set := l.Value().Identity
		if in.policy != in.base.policy {
			set = set.Enabled() // the policy itself decides about tenants
		}
		if err := r.adopt(set, l.Value()); err != nil {
			return err
		}
	}
	c.Switch() // until the swap no request is decided
	m.swap(r)
	return nil
}

// swap publishes r.
func (m *Manager) swap(r *Revision) { m.current.Swap(r, (*Revision).release) }

// reconcile adjusts endpoints and controllers to the revision in force, and ends c. It
// cannot fail. The caller holds turn.
func (m *Manager) reconcile(r, base *Revision, c *fleet.Change) {
	c.End()
	if m.opt.LogLevel != nil {
		m.opt.LogLevel.UnmarshalText([]byte(r.Config.Telemetry.LogLevel)) // the configuration was checked
	}
	m.opt.Scaling.Apply(r.scaling)
	var before live.InForce
	if base != nil {
		before = base.inForce()
	}
	m.opt.Policies.Adopted(r.policy, before.Snapshot, r.Number)
	m.opt.Plugins.Adopted(r.Plugins)
	m.opt.Log.Info("rules in force", "revision", r.Number, "models", len(r.Config.Models), "pools", len(r.Config.Pools))
}

// Current implements plugins.Rules.
func (m *Manager) Current() (set *plugins.Set, revision uint64, release func()) {
	l := m.Acquire()
	return l.Value().Plugins, l.Value().Number, l.Release
}

// Apply implements plugins.Rules.
func (m *Manager) Apply(change *plugins.Change) (*plugins.Set, uint64, error) {
	r, err := m.replace(func(base *Revision) (planInput, error) {
		return planInput{cfg: base.Config, policy: base.policy, change: change}, nil
	})
	if err != nil {
		return nil, 0, err
	}
	return r.Plugins, r.Number, nil
}

// Policy implements live.Rules.
func (m *Manager) Policy() live.InForce {
	l := m.Acquire()
	defer l.Release()
	return l.Value().inForce()
}

// PutPolicy implements live.Rules.
func (m *Manager) PutPolicy(load func(base live.InForce) (*live.Candidate, error)) (live.InForce, error) {
	var c *live.Candidate
	var over *live.Candidate // that c was loaded over
	r, err := m.replace(func(base *Revision) (_ planInput, err error) {
		if c == nil || over != base.policy {
			if c, err = load(base.inForce()); err != nil {
				return planInput{}, err
			}
			over = base.policy
		}
		if c == nil {
			return planInput{}, errUnchanged
		}
		return planInput{cfg: base.Config, policy: c}, nil
	})
	if errors.Is(err, errUnchanged) {
		return m.Policy(), m.enable()
	}
	if err != nil {
		return live.InForce{}, err
	}
	return r.inForce(), nil
}

// errUnchanged reports that a policy is already in force.
var errUnchanged = errors.New("rules: the policy is already in force")

// changes returns the differences of r from base, a line each.
func changes(base, r *Revision) []string {
	out := append([]string{}, config.Diff(base.Config, r.Config)...)
	if !base.Identity.SameKeys(r.Identity) {
		out = append(out, "API keys: changed")
	}
	if was, now := revisionOf(base), revisionOf(r); was != now {
		out = append(out, fmt.Sprintf("policy: revision %.12s → %.12s", was, now))
	}
	was, now := base.Plugins.Modules(), r.Plugins.Modules()
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
	return append(out, r.Plugins.Aside()...)
}

// revisionOf returns the revision of the policy, "none" without one.
func revisionOf(r *Revision) string {
	if p := r.Policy(); p != nil {
		return p.Revision()
	}
	return "none"
}
