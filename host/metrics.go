package host

import (
	"slices"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/internal/timing"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry"
)

// collect registers what the parts count with the metrics.
func (h *Host) collect() {
	h.registry.GaugeFunc("kvasir_build_info", "Always 1; the version is a label.", func() float64 { return 1 }, "version", h.opt.Version)
	h.registry.CounterFunc("kvasir_reload_failures_total", "Reloads that failed and changed nothing.", func() float64 { return float64(h.reloadErrors.Load()) })
	h.registry.GaugeFunc("kvasir_generation", "Number of the rules in force.", func() float64 {
		l := h.rules.Acquire()
		defer l.Release()
		return float64(l.Value().number)
	})
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

func (h *Host) collectEndpoints(e *telemetry.Emitter) {
	snap := h.store.Load()
	for i := range snap.N {
		id := endpoint.ID(i)
		info := snap.Info(id)
		if info == nil {
			continue
		}
		labels := []string{"endpoint", info.URL, "pool", info.Pool}
		ready := 0.0
		if snap.Ready.Has(id) {
			ready = 1
		}
		e.Gauge("kvasir_endpoint_ready", "1 if the endpoint takes requests.", ready, labels...)
		e.Gauge("kvasir_endpoint_trust", "Weight of what is believed of the endpoint's cache, 0 to 1.", float64(snap.Trust[i]), labels...)
		e.Gauge("kvasir_endpoint_inflight", "Requests this router has there.", float64(snap.Loads[i].Inflight()), labels...)
		e.Gauge("kvasir_endpoint_outstanding_tokens", "Uncached prompt tokens sent there and not prefilled yet.", float64(snap.Loads[i].Outstanding()), labels...)
		e.Gauge("kvasir_endpoint_kv_usage", "Share of KV memory in use, as the engine reports.", float64(snap.KVUsage[i]), labels...)
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
	e.Gauge("kvasir_events_live", "1 if the endpoint's cache is known from its events.", live, labels...)
	e.Counter("kvasir_events_messages_total", "Event messages taken, live and replayed.", float64(st.Stream.Messages), labels...)
	e.Counter("kvasir_events_stored_blocks_total", "Blocks stored by events.", float64(st.Feed.StoredBlocks), labels...)
	e.Counter("kvasir_events_removed_blocks_total", "Blocks removed by events.", float64(st.Feed.RemovedBlocks), labels...)
	e.Counter("kvasir_events_failed_total", "Events that could not be decoded.", float64(st.Feed.Failed), labels...)
	e.Counter("kvasir_events_gaps_total", "Holes in the sequence of messages.", float64(st.Stream.Gaps), labels...)
	e.Counter("kvasir_events_lost_total", "Messages lost for good.", float64(st.Stream.Lost), labels...)
	e.Counter("kvasir_events_replays_total", "Replays asked for.", float64(st.Stream.Replays), labels...)
	e.Counter("kvasir_events_orphans_total", "Stored events that came before their parent.", float64(st.Feed.Orphans), labels...)
	e.Counter("kvasir_events_resets_total", "Times the endpoint's holdings were forgotten.", float64(st.Feed.Resets), labels...)
	e.Counter("kvasir_endpoint_restarts_total", "Restarts of the engine that were seen.", float64(st.Restarts), labels...)
	for _, word := range []string{endpoint.IsolationVerified, endpoint.IsolationUnverified, endpoint.IsolationNone} {
		is := 0.0
		if st.Probe.Isolation == word {
			is = 1
		}
		e.Gauge("kvasir_endpoint_isolation", "1 for what isolation probes found of the endpoint: verified, unverified or none.", is, append(slices.Clone(labels), "isolation", word)...)
	}
	e.Counter("kvasir_endpoint_isolation_probes_total", "Isolation probes sent.", float64(st.Probe.Probes), labels...)
	e.Counter("kvasir_endpoint_isolation_probe_failures_total", "Isolation probes that came to no result.", float64(st.Probe.Faults), labels...)
	e.Counter("kvasir_endpoint_parse_failures_total", "Scrapes that the pool's parser could not read; the engine's figures are then unknown.", float64(st.ParseFails), labels...)
	e.Counter("kvasir_endpoint_check_failures_total", "Health checks that failed.", float64(st.CheckFails), labels...)
}

func (h *Host) collectIndex(e *telemetry.Emitter) {
	st := h.index.Stats()
	e.Gauge("kvasir_index_bytes", "Memory of the block index.", float64(st.Bytes))
	e.Gauge("kvasir_index_blocks", "Distinct blocks in the index.", float64(st.Blocks))
	e.Gauge("kvasir_index_pairs", "Pairs of block and endpoint in the index.", float64(st.Pairs))
	e.Gauge("kvasir_index_runs", "Runs of blocks in the index.", float64(st.Runs))
	e.Counter("kvasir_index_orphans_total", "Blocks of events whose parent was not known.", float64(st.Orphans))
	e.Gauge("kvasir_index_assumed_bytes", "Memory of the models of endpoints without events.", float64(h.assumed.Bytes()))
	e.Gauge("kvasir_index_predicted_bytes", "Memory of predictions.", float64(h.predictor.Bytes()))
	e.Counter("kvasir_index_evicted_total", "Blocks evicted to keep the byte budget.", float64(st.Evicted))
}

func (h *Host) collectProxy(e *telemetry.Emitter) {
	if h.proxy == nil {
		return
	}
	st := h.proxy.Stats()
	e.Gauge("kvasir_connections", "Client connections.", float64(st.Connections))
	e.Gauge("kvasir_inflight", "Requests in progress.", float64(st.InFlight))
	e.Gauge("kvasir_body_bytes_held", "Memory of request bodies.", float64(st.BodyBytesHeld))
	e.Counter("kvasir_proxy_requests_total", "Requests with a served path.", float64(st.Requests))
	e.Counter("kvasir_proxy_completed_total", "Answers passed on whole.", float64(st.Completed))
	e.Counter("kvasir_proxy_client_gone_total", "Clients that left before their answer's end.", float64(st.ClientGone))
	for code, n := range st.Refused {
		e.Counter("kvasir_proxy_refused_total", "Answers of the router itself, by code.", float64(n), "code", code)
	}
	for why, n := range st.Retries {
		e.Counter("kvasir_proxy_retries_total", "Retries, by what was wrong before.", float64(n), "cause", why)
	}
	e.Counter("kvasir_proxy_bytes_in_total", "Bytes of request bodies.", float64(st.BytesIn))
	e.Counter("kvasir_proxy_bytes_out_total", "Bytes of answers.", float64(st.BytesOut))
}

func (h *Host) collectScheduler(e *telemetry.Emitter) {
	st := h.state.Stats()
	for code, n := range st.Refused {
		e.Counter("kvasir_refused_total", "Requests that were not placed, by reason.", float64(n), "reason", code)
	}
	e.Counter("kvasir_scheduler_builtin_total", "Decisions the built-in scored because no scorer of the profile was heard.", float64(st.Faults))
	e.Counter("kvasir_scheduler_passed_over_total", "Decisions in which the envelope passed somebody over.", float64(st.Passed))
	e.Counter("kvasir_scheduler_retries_total", "Placements that went on to another endpoint.", float64(st.Retries))
	e.Counter("kvasir_prompt_agreed_total", "Prompts whose token count the engine confirmed.", float64(st.PromptAgreed))
	e.Counter("kvasir_prompt_differed_total", "Prompts whose token count the engine contradicted.", float64(st.PromptDiffered))
}

// collectStages tells how long the stages of a request take in the router.
func (h *Host) collectStages(e *telemetry.Emitter) {
	bounds := timing.Bounds()
	emit := func(stage string, c *timing.Counts) {
		e.Histogram("kvasir_stage_seconds", "Time of one stage of a request: read and scan of its body, schedule, connect to an engine, response_head: from sending to the head of the engine's answer. policy, prompt, lookup and place are the parts of schedule.",
			c.Count, float64(c.SumNanos)/1e9, bounds, c.Buckets[:], "stage", stage)
	}
	if h.proxy != nil {
		st := h.proxy.Stats()
		for i := range st.Stages {
			emit(proxy.Stage(i).String(), &st.Stages[i])
		}
	}
	st := h.state.Stats()
	for i, name := range scheduler.StageNames {
		emit(name, &st.Stages[i])
	}
}
