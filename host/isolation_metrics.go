package host

import (
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/telemetry"
)

// collectIsolation tells what bears on the isolation of tenants.
func (h *Host) collectIsolation(e *telemetry.Emitter) {
	st := h.state.Stats()
	const unsalted = "Requests sent without a cache salt, by reason: public (policy says so), dedicated (the engine is one tenant's). Any other is a fault."
	for why, n := range st.Unsalted {
		e.Counter("kvasir_unsalted_requests_total", unsalted, float64(n), "reason", why)
	}
	e.Counter("kvasir_client_salts_total", "Requests in which the client named a cache salt; it was not passed on.", float64(st.ClientSalts))
	q := h.state.Quota()
	e.Gauge("kvasir_quota_budgets", "Budgets of tenants and rate classes in use.", float64(q.Accounts))
	e.Counter("kvasir_quota_shared_total", "Requests counted in a common budget because there were too many.", float64(q.Shared))
	for what, n := range q.Refused {
		e.Counter("kvasir_quota_refused_total", "Requests over a limit of their tenant, by what is limited.", float64(n), "limit", what)
	}
	l := h.rules.Acquire()
	tenants := l.Value().cfg.Telemetry.TenantLabels
	l.Release()
	h.detector.Collect(e, tenants)
	snap, now := h.store.Load(), h.now()
	for i := range snap.N {
		info := snap.Info(endpoint.ID(i))
		if info == nil {
			continue
		}
		most, hhi := snap.Loads[i].Concentration(now)
		labels := []string{"endpoint", info.URL, "pool", info.Pool}
		e.Gauge("kvasir_endpoint_tenant_share", "Greatest share of the endpoint's work of the last minutes that one tenant has, 0 to 1.", most, labels...)
		e.Gauge("kvasir_endpoint_tenant_hhi", "Concentration of the endpoint's work of the last minutes: sum of the squares of the tenants' shares (Herfindahl-Hirschman).", hhi, labels...)
	}
}
