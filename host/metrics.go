package host

import (
	"slices"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// collect registers what the parts count with the metrics.
func (h *Host) collect() {
	h.registry.Collect(h.collectRouter)
	h.registry.Collect(h.collectEndpoints)
	h.registry.Collect(h.collectIndex)
	h.registry.Collect(h.collectProxy)
	h.registry.Collect(h.collectScheduler)
	h.registry.Collect(h.collectPolicy)
	h.registry.Collect(h.collectIsolation)
	h.registry.Collect(h.collectPrompts)
	h.registry.Collect(h.plugins.Collect)
	h.registry.Collect(h.collectStages)
	h.registry.Collect(h.collectQueue)
	h.registry.Collect(h.collectAudit)
	h.registry.Collect(h.scaling.Collect)
	h.registry.Collect(h.collectTokens)
	h.registry.Collect(h.collectDecisions)
}

func (h *Host) collectRouter(e *telemetry.Emitter) {
	l := h.rules.Acquire()
	defer l.Release()
	e.Emit(metric.BuildInfo, 1, h.opt.Version)
	e.Emit(metric.Generation, float64(l.Value().number))
	e.Emit(metric.ReloadFailures, float64(h.reloadErrors.Load()))
}

func (h *Host) collectEndpoints(e *telemetry.Emitter) {
	snap := h.store.Load()
	for i := range snap.N {
		id := endpoint.ID(i)
		info := snap.Info(id)
		if info == nil {
			continue
		}
		labels := []string{info.URL, info.Pool}
		ready := 0.0
		if snap.Ready.Has(id) {
			ready = 1
		}
		e.Emit(metric.EndpointReady, ready, labels...)
		e.Emit(metric.EndpointTrust, float64(snap.Trust[i]), labels...)
		e.Emit(metric.EndpointInflight, float64(snap.Loads[i].Inflight()), labels...)
		e.Emit(metric.EndpointOutstandingTokens, float64(snap.Loads[i].Outstanding()), labels...)
		e.Emit(metric.EndpointKVUsage, float64(snap.KVUsage[i]), labels...)
		h.collectWatcher(e, id, labels)
	}
}

func (h *Host) collectWatcher(e *telemetry.Emitter, id endpoint.ID, labels []string) {
	w := h.fleet.Watcher(id)
	if w == nil {
		return
	}
	st := w.Status()
	live := 0.0
	if st.Mode == endpoint.EventsLive {
		live = 1
	}
	e.Emit(metric.EventsLive, live, labels...)
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
	for _, word := range []string{endpoint.IsolationVerified, endpoint.IsolationUnverified, endpoint.IsolationNone} {
		is := 0.0
		if st.Probe.Isolation == word {
			is = 1
		}
		e.Emit(metric.EndpointIsolation, is, append(slices.Clone(labels), word)...)
	}
	e.Emit(metric.EndpointIsolationProbes, float64(st.Probe.Probes), labels...)
	e.Emit(metric.EndpointIsolationProbeFailures, float64(st.Probe.Faults), labels...)
	e.Emit(metric.EndpointParseFailures, float64(st.ParseFails), labels...)
	e.Emit(metric.EndpointCheckFailures, float64(st.CheckFails), labels...)
}

func (h *Host) collectIndex(e *telemetry.Emitter) {
	st := h.index.Stats()
	e.Emit(metric.IndexBytes, float64(st.Bytes))
	e.Emit(metric.IndexBlocks, float64(st.Blocks))
	e.Emit(metric.IndexPairs, float64(st.Pairs))
	e.Emit(metric.IndexRuns, float64(st.Runs))
	e.Emit(metric.IndexOrphans, float64(st.Orphans))
	e.Emit(metric.IndexAssumedBytes, float64(h.assumed.Bytes()))
	e.Emit(metric.IndexPredictedBytes, float64(h.predictor.Bytes()))
	e.Emit(metric.IndexEvicted, float64(st.Evicted))
}

func (h *Host) collectProxy(e *telemetry.Emitter) {
	if h.proxy == nil {
		return
	}
	st := h.proxy.Stats()
	e.Emit(metric.Connections, float64(st.Connections))
	e.Emit(metric.Inflight, float64(st.InFlight))
	e.Emit(metric.BodyBytesHeld, float64(st.BodyBytesHeld))
	e.Emit(metric.ProxyRequests, float64(st.Requests))
	e.Emit(metric.ProxyCompleted, float64(st.Completed))
	e.Emit(metric.ProxyClientGone, float64(st.ClientGone))
	for code, n := range st.Refused {
		e.Emit(metric.ProxyRefused, float64(n), code)
	}
	for why, n := range st.Retries {
		e.Emit(metric.ProxyRetries, float64(n), why)
	}
	e.Emit(metric.ProxyBytesIn, float64(st.BytesIn))
	e.Emit(metric.ProxyBytesOut, float64(st.BytesOut))
}

func (h *Host) collectScheduler(e *telemetry.Emitter) {
	st := h.state.Stats()
	for code, n := range st.Refused {
		e.Emit(metric.Refused, float64(n), code)
	}
	e.Emit(metric.SchedulerBuiltin, float64(st.Faults))
	e.Emit(metric.SchedulerPassedOver, float64(st.Passed))
	e.Emit(metric.SchedulerRetries, float64(st.Retries))
	e.Emit(metric.PromptAgreed, float64(st.PromptAgreed))
	e.Emit(metric.PromptDiffered, float64(st.PromptDiffered))
}

// collectStages tells how long the stages of a request take in the router.
func (h *Host) collectStages(e *telemetry.Emitter) {
	if h.proxy != nil {
		st := h.proxy.Stats()
		for i := range st.Stages {
			e.EmitDurations(metric.StageSeconds, &st.Stages[i], proxy.Stage(i).String())
		}
	}
	st := h.state.Stats()
	for i, name := range scheduler.StageNames {
		e.EmitDurations(metric.StageSeconds, &st.Stages[i], name)
	}
}
