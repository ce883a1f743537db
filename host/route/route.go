// Package route takes a request from the proxy to a placement of the scheduler: it
// leases the rules in force, has them decide, lets the request wait while every
// endpoint is at its cap or none has been started, and logs the decision. Neither the
// proxy nor the scheduler depends on the other.
package route

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/queue"
	"github.com/kvasir-router/kvasir/host/scaling"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry/decisions"
)

// Rules are the rules of the router. It is safe for concurrent use.
type Rules interface {
	// Acquire leases the rules in force. The caller must call Release once.
	Acquire() Lease
}

// Lease is one revision of the rules, which stays open until Release.
type Lease struct {
	Scheduler *scheduler.Scheduler
	Edge      *proxy.Edge      // how heads of requests are read
	LogPolicy decisions.Policy // for the decision log; nil without a policy
	Releaser
}

// Releaser ends a lease.
type Releaser interface{ Release() }

// Config is what a Router is made of.
type Config struct {
	Rules Rules
	Queue *queue.Queue  // where requests wait while every endpoint is at its cap
	Room  *scaling.Room // where they wait for the first endpoint of a pool
	Log   *Log          // log of decisions; nil = none
	Now   func() time.Time
}

// Router is the proxy.Router of the rules in force. It is safe for concurrent use.
type Router struct{ cfg Config }

// New returns a router.
func New(cfg Config) *Router { return &Router{cfg} }

// Edge implements proxy.Router.
func (t *Router) Edge() *proxy.Edge {
	l := t.cfg.Rules.Acquire()
	defer l.Release()
	return l.Edge
}

// Models implements proxy.Router.
func (t *Router) Models(p *identity.Principal) []llmapi.Model {
	l := t.cfg.Rules.Acquire()
	defer l.Release()
	return l.Scheduler.Models(p)
}

// Schedule implements proxy.Router. The lease on the rules ends before the first byte
// is forwarded, so that a long stream keeps no old revision open.
//
// A request that no endpoint serves, for a model whose pools scale, waits for the
// first endpoint in the proxy, without a lease, and is decided again.
func (t *Router) Schedule(r *proxy.Request) (proxy.Placement, error) {
	p, err := t.schedule(r)
	if d, ok := errors.AsType[*scheduler.DeniedError](err); ok && d.Code == llmapi.CodeNoEligibleEndpoint {
		err = t.hold(r, err)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// hold handles a request that was denied with denied. It returns what the proxy must
// do: wait (a *proxy.Held), report denied because no endpoint is being started, or
// report that too many requests wait.
func (t *Router) hold(r *proxy.Request, denied error) error {
	tenant := ""
	if r.Principal != nil {
		tenant = r.Principal.Tenant
	}
	seat, err := t.cfg.Room.Enter(r.API.Model, tenant)
	switch {
	case err != nil:
		return &llmapi.Error{Status: http.StatusTooManyRequests, Code: llmapi.CodeWaitingRoomFull,
			Message: "Too many requests are waiting for the model to be started.", RetryAfter: seat.ColdStart}
	case seat == nil:
		return denied
	}
	return &proxy.Held{Wait: func(r *proxy.Request) (proxy.Placement, error) {
		if !seat.Await(r.Gone()) {
			return nil, &llmapi.Error{Status: http.StatusServiceUnavailable, Code: llmapi.CodeModelNotStarted,
				Message:    fmt.Sprintf("The model was not started within %v; try again later.", seat.MaxHold),
				RetryAfter: seat.ColdStart}
		}
		p, err := t.schedule(r)
		if err != nil {
			return nil, err
		}
		return p, nil
	}}
}

// schedule is one try of Schedule. Its error is the scheduler's.
func (t *Router) schedule(r *proxy.Request) (*placement, error) {
	req := scheduler.Request{API: r.API, ID: r.ID, Received: r.Received}
	p, err := t.place(proxied{r}, &req)
	r.Limits = proxy.Limits{Requests: proxy.Remaining(req.Quota.Requests), Tokens: proxy.Remaining(req.Quota.Tokens)}
	if err != nil {
		return nil, withWait(err, req.Queued)
	}
	out := &placement{p: p}
	if req.Logged != "" {
		out.log, out.decision, out.id, out.tenant, out.now = t.cfg.Log, req.Logged, r.ID, tenantOf(&req), t.cfg.Now
	}
	return out, nil
}
