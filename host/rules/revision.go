// Package rules owns the rules of a running router: credentials, client hints, limits,
// models, pools, profiles, plugins and policy. A [Revision] holds all of them at one
// time, behind one pointer.
//
// A change takes three steps. Planning reads, compiles and checks everything, may take
// minutes and changes nothing; whatever can be refused is refused there. The commit
// swaps one pointer, and with it the attributes of the endpoints. Reconciling adjusts
// endpoints and autoscaler to the revision and cannot fail. Planning holds no lock: if
// the base of a plan changes meanwhile, the plan is made again with what it has
// compiled.
//
// Withdrawals (revoked keys, emptied key sets, removed certificates, disabled tenants)
// do not wait for a plan: they apply to the revision in force at once, even if the
// files contain errors.
package rules

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/fleet"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/identity/jwt"
	"github.com/kvasir-router/kvasir/host/plugins"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/policy/live"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/scaling"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry/decisions"
)

// Revision holds all rules at one time. It is immutable, except for the keys that
// issuers of tokens publish, and safe for concurrent use while it is leased.
type Revision struct {
	Number    uint64 // from 1; a change of credentials alone keeps it
	Config    *config.Config
	Built     time.Time
	Identity  *identity.Set
	Edge      *proxy.Edge   // how heads of requests are read; one for each Identity
	Admin     *admin.Access // of the operators' listener
	Scheduler *scheduler.Scheduler
	Plugins   *plugins.Set
	LogPolicy decisions.Policy // nil without a policy
	Tokens    *jwt.Verifier    // nil without issuers
	Prompts   []*Prompts

	Certificate *tls.Certificate // of the clients' listener; nil without TLS

	authorization map[string]string    // for the engines, by pool; never logged
	engineTLS     map[string]fleet.TLS // by pool
	policy        *live.Candidate      // nil without a policy
	fleet         *fleet.Plan
	scaling       *scaling.Plan
	shared        *shared
	modules       *modules
}

// shared identifies rules: revisions that differ only in credentials have the same
// number.
type shared struct{ _ byte }

// modules counts the revisions that hold one set of plugins.
type modules struct {
	set     *plugins.Set
	holders atomic.Int64
}

// hold takes over a set of plugins from the caller.
func hold(set *plugins.Set) *modules {
	m := &modules{set: set}
	m.holders.Store(1)
	return m
}

// release releases the set after its last holder. On nil it does nothing.
func (m *modules) release() {
	if m != nil && m.holders.Add(-1) == 0 {
		m.set.Release()
	}
}

// Policy returns the policy, nil if there is none and while none could be loaded.
func (r *Revision) Policy() *policy.Snapshot { return r.policy.Snap() }

// inForce returns the policy with its settings.
func (r *Revision) inForce() live.InForce {
	return live.InForce{Config: &r.Config.Policy, Snapshot: r.policy.Snap(), Revision: r.Number}
}

// release releases what a revision owns. It is called once, after its last use.
func (r *Revision) release() { r.modules.release() }

// withIdentity returns r with other credentials. The caller must publish or
// release it, and holds a lease on r.
func (r *Revision) withIdentity(set *identity.Set) (*Revision, error) {
	edge, err := edgeOf(r.Config, set)
	if err != nil {
		return nil, err
	}
	next := *r
	next.Identity, next.Edge = set, edge
	next.modules.holders.Add(1)
	return &next, nil
}
