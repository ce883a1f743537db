package host

import (
	"context"
	"fmt"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// explainer is the admin API's face of the scheduler's traces.
type explainer struct{ h *Host }

// Explain implements admin.Explainer.
func (e explainer) Explain(_ context.Context, tenant, id string) (decision *scheduler.Explanation, owner string, err error) {
	l := e.h.rules.Acquire()
	defer l.Release()
	if tenant == "" {
		owners := e.h.state.ExplainTenants(id)
		if len(owners) > 1 {
			return nil, "", &admin.AmbiguousError{RequestID: id, Tenants: owners}
		}
		if len(owners) == 1 {
			tenant = owners[0]
		}
	}
	x, ok := l.Value().scheduler.Explain(tenant, id)
	if !ok {
		return nil, "", fmt.Errorf("%w: no decision about request %q is kept; the last 10,000 are", admin.ErrNotFound, id)
	}
	return x, tenant, nil
}

// DryRun implements admin.Explainer.
func (e explainer) DryRun(_ context.Context, q *admin.DryRun) (*scheduler.Explanation, error) {
	op, known, _ := llmapi.Route([]byte("POST"), []byte(q.Path))
	if !known || op == llmapi.OpNone {
		return nil, fmt.Errorf("%w: path %q; served are %s", admin.ErrRefused, q.Path, llmapi.Served())
	}
	tenant := q.Tenant
	if tenant == "" {
		tenant = e.h.cfg.Identity.Anonymous.Tenant
	}
	if !identity.ValidTenant(tenant) {
		return nil, fmt.Errorf("%w: name the tenant that would ask", admin.ErrRefused)
	}
	var api llmapi.Request
	if err := api.Scan(op, q.Body); err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	method := identity.MethodAPIKey // what a tenant's clients show, unless they show nothing
	if tenant == e.h.cfg.Identity.Anonymous.Tenant {
		method = identity.MethodAnonymous
	}
	l := e.h.rules.Acquire()
	defer l.Release()
	return l.Value().scheduler.DryRun(&scheduler.Request{
		API: &api, Principal: &identity.Principal{Tenant: tenant, User: q.User, Method: method}, ID: "dry-run", Received: e.h.now(),
	}), nil
}

// status is the admin API's face of what the router does.
type status struct{ h *Host }

// Ready implements admin.Status.
func (s status) Ready() error {
	select {
	case <-s.h.readyCh:
	default:
		return fmt.Errorf("endpoints are being looked at for the first time")
	}
	if policyAdmin(s).status().State == "unloaded" {
		return fmt.Errorf("no policy could be loaded: see GET /v1/policy")
	}
	return nil
}

// Status implements admin.Status.
func (s status) Status(context.Context) (*admin.RouterStatus, error) {
	l := s.h.rules.Acquire()
	defer l.Release()
	return &admin.RouterStatus{
		Version: s.h.opt.Version, Started: s.h.started, Revision: l.Value().number, RulesSince: l.Value().built,
		Scheduler: s.h.state.Stats(), Proxy: s.h.proxy.Stats(), Index: s.h.index.Stats(), AuditHead: s.h.audit.Head().String(),
	}, nil
}

// stateWord says how far an endpoint serves: ready, cordoned or draining (the
// autoscaler's), held cordoned or held drained (an operator's), sleeping, or
// not ready.
func stateWord(s *endpoint.State) string {
	switch {
	case s.Held != endpoint.HoldNone:
		return "held " + s.Held.String()
	case !s.Ready:
		return "not ready"
	case s.Sleeping:
		return "sleeping"
	case s.Draining:
		return "draining"
	case s.Cordoned:
		return "cordoned"
	}
	return "ready"
}

// Endpoints implements admin.Status.
func (s status) Endpoints(context.Context) ([]admin.Endpoint, error) {
	snap := s.h.store.Load()
	out := []admin.Endpoint{}
	for i := range snap.N {
		id := endpoint.ID(i)
		info := snap.Info(id)
		if info == nil {
			continue
		}
		st := snap.State(id)
		e := admin.Endpoint{
			URL: info.URL, Pool: info.Pool, Dialect: info.Dialect, Ready: snap.Ready.Has(id), Reason: snap.Reasons[id], Held: st.Held.String(), State: stateWord(&st),
			Events: st.Events.String(), Trust: st.Trust, BlockTokens: st.BlockTokens, CacheBlocks: st.CacheBlocks,
			MaxModelLen: st.MaxModelLen, Models: st.Models, Running: st.Running, Waiting: st.Waiting, KVUsage: st.KVUsage,
			Inflight: snap.Loads[i].Inflight(), Outstanding: snap.Loads[i].Outstanding(), ScrapedAt: st.ScrapedAt,
		}
		if w := s.h.fleet.Watcher(id); w != nil {
			ws := w.Status()
			e.EventsReason, e.EventSource, e.Version, e.Restarts = ws.EventsReason, ws.Publisher, ws.Capabilities.Version, ws.Restarts
			e.FiguresWhy = ws.FiguresReason
			e.Unverified = ws.Trust.Unverified
			e.Isolation, e.ProbedAt, e.ProbeFault = ws.Probe.Isolation, ws.Probe.At, ws.Probe.Fault
			e.IsolationWhy, e.ProbeTokens = ws.Probe.Reason, ws.Probe.Tokens
		}
		out = append(out, e)
	}
	return out, nil
}
