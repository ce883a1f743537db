package host

import (
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// collectIsolation tells what bears on the isolation of tenants.
func (h *Host) collectIsolation(e *telemetry.Emitter) {
	st := h.state.Stats()
	for why, n := range st.Unsalted {
		e.Emit(metric.UnsaltedRequests, float64(n), why)
	}
	e.Emit(metric.ClientSalts, float64(st.ClientSalts))
	q := h.state.Quota()
	e.Emit(metric.QuotaBudgets, float64(q.Accounts))
	e.Emit(metric.QuotaShared, float64(q.Shared))
	for what, n := range q.Refused {
		e.Emit(metric.QuotaRefused, float64(n), what)
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
		labels := []string{info.URL, info.Pool}
		e.Emit(metric.EndpointTenantShare, most, labels...)
		e.Emit(metric.EndpointTenantHHI, hhi, labels...)
	}
}
