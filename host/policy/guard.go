package policy

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// Errors of Guard.
var (
	// ErrNotLoaded: no policy could be loaded yet.
	ErrNotLoaded = errors.New("policy: none is loaded")
	// ErrStale: the policy in force could not be replaced for longer than allowed.
	ErrStale = errors.New("policy: the last good one is too old")
)

// Guard is a Snapshot with what a site wants where it gives no decision. It is
// immutable and safe for concurrent use.
type Guard struct {
	snapshot *Snapshot
	cfg      GuardConfig
}

// GuardConfig is the configuration of a Guard.
type GuardConfig struct {
	// Key is K_epoch.
	Key []byte
	// Allow answers an error of the policy by allowing, within Fallback and in
	// the tenant's own namespace. Else it is the caller's 503.
	Allow bool
	// Fallback are the constraints of what is allowed so.
	Fallback []Constraint
	// MaxStale is how long a policy may decide after its successor was refused;
	// 0 = for ever.
	MaxStale time.Duration
	// Health outlives Guards. It must not be nil.
	Health *Health
	// OnError is told each error; it may be nil. It is called by the request.
	OnError func(err error, allowed bool)
}

// Health is what is known of a policy beside what it decides. The zero value is
// ready, and it is safe for concurrent use.
type Health struct {
	failed    atomic.Int64 // Unix nanoseconds since when no successor could be loaded; 0 = the policy is the newest
	fallbacks atomic.Uint64
	last      atomic.Pointer[string]
}

// Failed notes that a successor was refused at t; later ones do not move it.
func (h *Health) Failed(t time.Time) { h.failed.CompareAndSwap(0, t.UnixNano()) }

// Fine notes that the policy in force is the newest.
func (h *Health) Fine() { h.failed.Store(0) }

// StaleFor is how long the policy in force has not been the newest.
func (h *Health) StaleFor(now time.Time) time.Duration {
	since := h.failed.Load()
	if since == 0 {
		return 0
	}
	return max(0, time.Duration(now.UnixNano()-since))
}

// Fallbacks counts requests that were allowed although the policy gave no
// decision.
func (h *Health) Fallbacks() uint64 { return h.fallbacks.Load() }

// LastError is the last error of a decision, "" if there was none.
func (h *Health) LastError() string {
	if p := h.last.Load(); p != nil {
		return *p
	}
	return ""
}

// NewGuard returns the guard of s; nil = there is none yet.
func NewGuard(s *Snapshot, cfg GuardConfig) *Guard {
	cfg.Fallback = slices.Clone(cfg.Fallback)
	return &Guard{s, cfg}
}

// Snapshot returns the guarded policy, nil if there is none.
func (g *Guard) Snapshot() *Snapshot { return g.snapshot }

// Decide implements Engine.
func (g *Guard) Decide(in *Input) (*Decision, error) {
	if g.snapshot == nil {
		return nil, ErrNotLoaded
	}
	if g.cfg.MaxStale > 0 && g.cfg.Health.failed.Load() != 0 && g.cfg.Health.StaleFor(time.Now()) > g.cfg.MaxStale {
		return nil, ErrStale
	}
	d, err := g.snapshot.Decide(in)
	if err == nil {
		return d, nil
	}
	text := err.Error()
	g.cfg.Health.last.Store(&text)
	if g.cfg.OnError != nil {
		g.cfg.OnError(err, g.cfg.Allow)
	}
	if !g.cfg.Allow {
		return nil, err
	}
	g.cfg.Health.fallbacks.Add(1)
	tenant := in.Principal.Tenant
	return &Decision{
		Allow: true, Reason: "policy_fallback", Constraints: g.cfg.Fallback, Audit: AuditFull, Rules: []string{"policy_fallback"},
		Scope: ScopeTenant, Salt: Salt(g.cfg.Key, ScopeTenant, tenant), Namespace: NamespaceHash(g.cfg.Key, ScopeTenant, tenant), Revision: g.snapshot.revision,
	}, nil
}
