package admin

import (
	"context"
	"errors"
	"strings"

	"github.com/kvasir-router/kvasir/host/scheduler"
)

// explain returns the decision about a served request of a tenant: by default the
// sender's own, or any for senders that hold explain:any. Request ids are looked
// up by tenant, so that another tenant's request and one that does not exist get
// the same answer.
func (s *Server) explain(c *call, q *ExplainRequest) (*scheduler.Explanation, error) {
	own := c.principal.Tenant
	if q.Tenant == "" && !holds(c.principal, ScopeExplainAny) {
		q.Tenant = own
	}
	if q.Tenant != "" && q.Tenant != own {
		if err := c.permit(ScopeExplainAny, "tenant/"+q.Tenant); err != nil {
			return nil, err
		}
	}
	x, owner, err := s.cfg.Explainer.Explain(c.context(), q)
	owners := []string{owner}
	if a, ok := errors.AsType[*AmbiguousError](err); ok {
		owners = a.Tenants
	} else if err != nil || owner == own {
		return x, err
	}
	for _, t := range owners {
		if t == own {
			continue
		}
		if err := c.permit(ScopeExplainAny, "tenant/"+t); err != nil {
			return nil, err
		}
	}
	a := auditedAction{ActionExplainAny, "request/" + q.ID, map[string]string{"tenant": strings.Join(owners, " ")}}
	return audited(c, a, func(context.Context) (*scheduler.Explanation, error) { return x, err })
}

// dryRun explains the request in the body as it would be decided now.
func (s *Server) dryRun(c *call, q *DryRun) (*scheduler.Explanation, error) {
	own := c.principal.Tenant // of the admin token none: anonymous
	if q.Tenant == "" {
		q.Tenant = own
	}
	if q.Path == "" {
		q.Path = "/v1/chat/completions"
	}
	if q.Tenant != own {
		if err := c.permit(ScopeExplainAny, "tenant/"+q.Tenant); err != nil {
			return nil, err
		}
	}
	if err := readBody(c, q); err != nil {
		return nil, err
	}
	do := func(ctx context.Context) (*scheduler.Explanation, error) { return s.cfg.Explainer.DryRun(ctx, q) }
	if q.Tenant == own {
		return do(c.context())
	}
	return audited(c, auditedAction{action: ActionExplainAny, object: "tenant/" + q.Tenant}, do)
}
