package status

import (
	"context"
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/route"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// Explainer is the admin.Explainer of the rules in force. It is safe for
// concurrent use.
type Explainer struct {
	Rules     route.Rules
	State     *scheduler.State
	Anonymous func() string // tenant of requests without a credential, "" = none is served
	Now       func() time.Time
}

// Explain implements admin.Explainer.
func (e *Explainer) Explain(
	_ context.Context, q *admin.ExplainRequest,
) (decision *scheduler.Explanation, owner string, err error) {
	tenant, id := q.Tenant, q.ID
	l := e.Rules.Acquire()
	defer l.Release()
	if tenant == "" {
		owners := e.State.ExplainTenants(id)
		if len(owners) > 1 {
			return nil, "", &admin.AmbiguousError{RequestID: id, Tenants: owners}
		}
		if len(owners) == 1 {
			tenant = owners[0]
		}
	}
	explain := l.Scheduler.Explain
	if q.Counterfactual {
		explain = l.Scheduler.ExplainCounterfactual
	}
	x, ok := explain(tenant, id)
	if !ok {
		return nil, "", fmt.Errorf("%w: no decision about request %q is kept; the last 10,000 are", admin.ErrNotFound, id)
	}
	return x, tenant, nil
}

// DryRun implements admin.Explainer.
func (e *Explainer) DryRun(_ context.Context, q *admin.DryRun) (*scheduler.Explanation, error) {
	op, known, _ := llmapi.Route([]byte("POST"), []byte(q.Path))
	if !known || op == llmapi.OpNone {
		return nil, fmt.Errorf("%w: path %q; served are %s", admin.ErrRefused, q.Path, llmapi.Served())
	}
	anonymous := e.Anonymous()
	p := &identity.Principal{Tenant: q.Tenant, User: q.User, Method: identity.MethodAPIKey}
	if p.Tenant == "" {
		p.Tenant = anonymous
	}
	if p.Tenant == anonymous {
		p.Method = identity.MethodAnonymous
	}
	if !identity.ValidTenant(p.Tenant) {
		return nil, fmt.Errorf("%w: name the tenant that would ask", admin.ErrRefused)
	}
	var api llmapi.Request
	if err := api.Scan(op, q.Body); err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	for {
		if x := e.dryRun(&scheduler.Request{API: &api, Principal: p, ID: "dry-run", Received: e.Now()}); x != nil {
			return x, nil
		}
		time.Sleep(time.Millisecond) // the rules are being replaced
	}
}

// dryRun explains r by the rules in force, nil while they are being replaced.
func (e *Explainer) dryRun(r *scheduler.Request) *scheduler.Explanation {
	l := e.Rules.Acquire()
	defer l.Release()
	return l.Scheduler.DryRun(r)
}
