package host

import (
	"context"
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// explainer is the admin API's face of the scheduler's traces.
type explainer struct{ h *Host }

// Explain implements admin.Explainer.
func (e explainer) Explain(_ context.Context, tenant, id string) (decision any, owner string, err error) {
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
func (e explainer) DryRun(_ context.Context, q *admin.DryRun) (any, error) {
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
func (s status) Status(context.Context) (any, error) {
	l := s.h.rules.Acquire()
	defer l.Release()
	return map[string]any{
		"version": s.h.opt.Version, "started": s.h.started, "generation": l.Value().number, "rules_since": l.Value().built,
		"scheduler": s.h.state.Stats(), "proxy": s.h.proxy.Stats(), "index": s.h.index.Stats(),
		"audit_head": s.h.audit.Head().String(),
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

// endpointStatus is one endpoint as operators see it.
type endpointStatus struct {
	URL          string    `json:"url"`
	Pool         string    `json:"pool"`
	Dialect      string    `json:"dialect"`
	Ready        bool      `json:"ready"`
	Reason       string    `json:"reason,omitempty"`
	State        string    `json:"state"`          // in one word, or two
	Held         string    `json:"held,omitempty"` // by an operator
	Events       string    `json:"events"`
	EventsReason string    `json:"events_reason,omitempty"`
	FiguresWhy   string    `json:"figures_reason,omitempty"` // why the engine's figures are unknown
	EventSource  string    `json:"event_source,omitempty"`
	Trust        float32   `json:"trust"`
	Unverified   bool      `json:"unverified"`
	Isolation    string    `json:"isolation"`
	ProbedAt     time.Time `json:"isolation_probed_at,omitzero"`
	IsolationWhy string    `json:"isolation_reason,omitempty"` // why it is none
	ProbeTokens  int       `json:"isolation_probe_tokens,omitempty"`
	ProbeFault   string    `json:"isolation_fault,omitempty"`
	BlockTokens  uint32    `json:"block_tokens"`
	CacheBlocks  uint32    `json:"cache_blocks"`
	MaxModelLen  uint32    `json:"max_model_len"`
	Models       []string  `json:"models"`
	Version      string    `json:"version,omitempty"`
	Running      uint32    `json:"running"`
	Waiting      uint32    `json:"waiting"`
	KVUsage      float32   `json:"kvusage"`
	Inflight     int64     `json:"inflight"`
	Outstanding  int64     `json:"outstanding_uncached_tokens"`
	Restarts     uint64    `json:"restarts"`
	ScrapedAt    time.Time `json:"scraped_at,omitzero"`
}

// Endpoints implements admin.Status.
func (s status) Endpoints(context.Context) (any, error) {
	snap := s.h.store.Load()
	out := []endpointStatus{}
	for i := range snap.N {
		id := endpoint.ID(i)
		info := snap.Info(id)
		if info == nil {
			continue
		}
		st := snap.State(id)
		e := endpointStatus{
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
