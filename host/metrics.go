package host

import (
	"time"

	"github.com/kvasir-router/kvasir/host/collectors"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// collect registers the collectors of all parts.
func (h *Host) collect() {
	for _, f := range []func(*telemetry.Emitter){
		h.collectRouter,
		collectors.Endpoints(h.store, h.fleet.Watcher, func() time.Time { return h.now() }),
		collectors.Index(h.index, h.assumed, h.predictor),
		collectors.Scheduler(h.state), collectors.Parity(h.store, h.state),
		collectors.Queue(&h.queue),
		collectors.Credentials(h.identity),
		collectors.Audit(h.audit),
		h.collectProxy,
		func(e *telemetry.Emitter) { h.policy().Collect(e) },
		h.rules.CollectPrompts,
		h.collectTenants,
		h.rules.CollectTokens,
		h.collectDecisions,
		h.plugins.Collect,
		h.scaling.Collect,
	} {
		h.registry.Collect(f)
	}
}

func (h *Host) collectRouter(e *telemetry.Emitter) {
	l := h.rules.Acquire()
	defer l.Release()
	e.Emit(metric.BuildInfo, 1, h.opt.Version)
	e.Emit(metric.Revision, float64(l.Value().Number))
	e.Emit(metric.ReloadFailures, float64(h.rules.Failures()))
}

// collectProxy emits nothing until the proxy serves.
func (h *Host) collectProxy(e *telemetry.Emitter) {
	if h.proxy != nil {
		collectors.Proxy(h.proxy)(e)
	}
}

// collectTenants emits what the detector counts, by tenant if the configuration
// says so.
func (h *Host) collectTenants(e *telemetry.Emitter) {
	l := h.rules.Acquire()
	tenants := l.Value().Config.Telemetry.TenantLabels
	l.Release()
	h.detector.Collect(e, tenants)
}
