package policy

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// Errors of Guard.
var (
	// ErrNotLoaded reports that no policy has been loaded.
	ErrNotLoaded = errors.New("policy: no policy is loaded")
	// ErrStale reports that a newer policy has been refused for longer than allowed.
	ErrStale = errors.New("policy: the last good policy is too old")
)

// Guard wraps a Snapshot with the site's choice for requests about which the policy
// gives no decision. It is immutable and safe for concurrent use.
type Guard struct {
	snapshot *Snapshot
	cfg      GuardConfig
}

// GuardConfig is the configuration of a Guard.
type GuardConfig struct {
	// Key is K_epoch.
	Key []byte
	// Allow allows a request if the policy fails, within Fallback and in the
	// tenant's own namespace. Otherwise Decide returns the error.
	Allow bool
	// Fallback are the constraints of requests that are allowed so.
	Fallback []Constraint
	// MaxStale is how long a policy may decide after a newer one was refused;
	// 0 = without limit.
	MaxStale time.Duration
	// Health outlives Guards. It must not be nil.
	Health *Health
	// OnError receives each error; it may be nil. It is called on the goroutine of
	// the request.
	OnError func(err error, allowed bool)
}

// Health is the state of a policy: since when it is stale, its fallbacks and its last
// error. The zero value is ready. It is safe for concurrent use.
type Health struct {
	failed    atomic.Int64 // Unix nanoseconds since when newer policies are refused; 0 = the policy is the newest
	fallbacks atomic.Uint64
	last      atomic.Pointer[string]
}

// Failed records that a newer policy was refused at t. Only the first call counts.
func (h *Health) Failed(t time.Time) { h.failed.CompareAndSwap(0, t.UnixNano()) }

// Fine records that the policy in force is the newest.
func (h *Health) Fine() { h.failed.Store(0) }

// StaleFor returns how long the policy in force has not been the newest.
func (h *Health) StaleFor(now time.Time) time.Duration {
	since := h.failed.Load()
	if since == 0 {
		return 0
	}
	return max(0, time.Duration(now.UnixNano()-since))
}

// Fallbacks returns the number of requests that were allowed although the policy
// gave no decision.
func (h *Health) Fallbacks() uint64 { return h.fallbacks.Load() }

// LastError returns the last error of a decision, "" if there was none.
func (h *Health) LastError() string {
	if p := h.last.Load(); p != nil {
		return *p
	}
	return ""
}

// NewGuard returns the guard of s, which is nil if no policy is loaded.
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
		Allow: true, Reason: "policy_fallback", Constraints: g.cfg.Fallback, Audit: AuditFull,
		Rules: []string{"policy_fallback"},
		Scope: ScopeTenant, Salt: Salt(g.cfg.Key, ScopeTenant, tenant),
		Namespace: NamespaceHash(g.cfg.Key, ScopeTenant, tenant), Revision: g.snapshot.revision,
	}, nil
}
