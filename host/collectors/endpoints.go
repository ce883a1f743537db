package collectors

import (
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// Endpoints collects the metrics of each endpoint of the store. watcher returns
// the watcher of an endpoint, nil if there is none.
func Endpoints(
	store *endpoint.Store, watcher func(endpoint.ID) *backend.Watcher, now func() time.Time,
) func(*telemetry.Emitter) {
	return func(e *telemetry.Emitter) {
		snap, at := store.Load(), now()
		for i := range snap.N {
			id := endpoint.ID(i)
			info := snap.Info(id)
			if info == nil {
				continue
			}
			labels := []string{info.URL, info.Pool}
			open := snap.Loads[i].Open(at)
			e.EmitFlag(metric.EndpointReady, snap.Ready.Has(id) && !open, labels...)
			e.EmitFlag(metric.EndpointBreakerOpen, open, labels...)
			e.Emit(metric.EndpointTrust, float64(snap.Trust[i]), labels...)
			e.EmitFlag(metric.EndpointEarlierBlocks, snap.Earlier.Has(id), labels...)
			e.Emit(metric.EndpointInflight, float64(snap.Loads[i].Inflight()), labels...)
			e.Emit(metric.EndpointOutstandingTokens, float64(snap.Loads[i].Outstanding()), labels...)
			e.Emit(metric.EndpointKVUsage, float64(snap.KVUsage[i]), labels...)
			share, hhi := snap.Loads[i].Concentration(at)
			e.Emit(metric.EndpointTenantShare, share, labels...)
			e.Emit(metric.EndpointTenantHHI, hhi, labels...)
			if w := watcher(id); w != nil {
				emitWatcher(e, w, labels)
			}
		}
	}
}

// Parity collects the metrics of models whose prompts an engine counts differently.
func Parity(store *endpoint.Store, s *scheduler.State) func(*telemetry.Emitter) {
	return func(e *telemetry.Emitter) {
		snap := store.Load()
		for _, p := range s.Parity() {
			if snap.Current(p.Endpoint, p.Epoch) {
				e.EmitFlag(metric.PromptContradicted, p.Contradicted, p.Model, snap.Info(p.Endpoint).URL)
			}
		}
	}
}

// emitWatcher emits the metrics of an endpoint's scrapes, events and probes.
func emitWatcher(e *telemetry.Emitter, w *backend.Watcher, labels []string) {
	st := w.Status()
	e.EmitFlag(metric.EventsLive, st.Mode == endpoint.EventsLive, labels...)
	e.Emit(metric.EventsMessages, float64(st.Stream.Messages), labels...)
	e.Emit(metric.EventsStoredBlocks, float64(st.Feed.StoredBlocks), labels...)
	e.Emit(metric.EventsRemovedBlocks, float64(st.Feed.RemovedBlocks), labels...)
	e.Emit(metric.EventsFailed, float64(st.Feed.Failed), labels...)
	e.Emit(metric.EventsGaps, float64(st.Stream.Gaps), labels...)
	e.Emit(metric.EventsLost, float64(st.Stream.Lost), labels...)
	e.Emit(metric.EventsReplays, float64(st.Stream.Replays), labels...)
	e.Emit(metric.EventsOrphans, float64(st.Feed.Orphans), labels...)
	e.Emit(metric.EventsResets, float64(st.Feed.Resets), labels...)
	e.Emit(metric.EndpointRestarts, float64(st.Restarts), labels...)
	for _, result := range []string{endpoint.IsolationVerified, endpoint.IsolationUnverified, endpoint.IsolationNone} {
		e.EmitFlag(metric.EndpointIsolation, st.Probe.Isolation == result, append(slices.Clone(labels), result)...)
	}
	e.Emit(metric.EndpointIsolationProbes, float64(st.Probe.Probes), labels...)
	e.Emit(metric.EndpointIsolationProbeFailures, float64(st.Probe.Faults), labels...)
	e.Emit(metric.EndpointUnexplainedAnswers, float64(st.Probe.Unexplained), labels...)
	e.Emit(metric.EndpointUnprovenAnswers, float64(st.Probe.Unproven), labels...)
	e.Emit(metric.EndpointIsolationRevocations, float64(st.Probe.Revocations), labels...)
	e.Emit(metric.EndpointParseFailures, float64(st.ParseFails), labels...)
	e.Emit(metric.EndpointCheckFailures, float64(st.CheckFails), labels...)
}
