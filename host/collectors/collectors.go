// Package collectors turns the Stats of packages that know nothing of metrics
// into samples. Each function returns a function for telemetry.Registry.Collect,
// which may be called concurrently.
//
// Packages that belong to the control path (fleet, scaling, plugins) emit their
// own samples; the packages of the request path count with plain structs.
package collectors

import (
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/queue"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
	"math"
)

// Index collects the metrics of the block index, the cache models of endpoints
// without events, and predictions.
func Index(x *kvindex.Index, assumed *kvindex.Assumed, predictor *kvindex.Predictor) func(*telemetry.Emitter) {
	return func(e *telemetry.Emitter) {
		st := x.Stats()
		e.Emit(metric.IndexBytes, float64(st.Bytes))
		e.Emit(metric.IndexBlocks, float64(st.Blocks))
		e.Emit(metric.IndexPairs, float64(st.Pairs))
		e.Emit(metric.IndexRuns, float64(st.Runs))
		e.Emit(metric.IndexOrphans, float64(st.Orphans))
		e.Emit(metric.IndexAssumedBytes, float64(assumed.Bytes()))
		e.Emit(metric.IndexPredictedBytes, float64(predictor.Bytes()))
		e.Emit(metric.IndexEvicted, float64(st.Evicted))
	}
}

// Proxy collects the metrics of connections, requests and the stages that p
// times.
func Proxy(p *proxy.Proxy) func(*telemetry.Emitter) {
	return func(e *telemetry.Emitter) {
		st := p.Stats()
		e.Emit(metric.Connections, float64(st.Connections))
		e.Emit(metric.Inflight, float64(st.InFlight))
		e.Emit(metric.BodyBytesHeld, float64(st.BodyBytesHeld))
		e.Emit(metric.ProxyRequests, float64(st.Requests))
		e.Emit(metric.ProxyCompleted, float64(st.Completed))
		e.Emit(metric.ProxyClientGone, float64(st.ClientGone))
		for code, n := range st.Refused {
			e.Emit(metric.ProxyRefused, float64(n), code)
		}
		for cause, n := range st.Retries {
			e.Emit(metric.ProxyRetries, float64(n), cause)
		}
		e.Emit(metric.ProxyBytesIn, float64(st.BytesIn))
		e.Emit(metric.ProxyBytesOut, float64(st.BytesOut))
		for i := range st.Stages {
			e.EmitDurations(metric.StageSeconds, &st.Stages[i], proxy.Stage(i).String())
		}
	}
}

// emitForecasts emits how predictions of a time compare with what came.
func emitForecasts(e *telemetry.Emitter, what string, f *scheduler.Forecasts) {
	e.Emit(metric.SchedulerForecasts, float64(f.Count), what)
	e.Emit(metric.SchedulerForecastSeconds, f.Predicted, what)
	e.Emit(metric.SchedulerForecastObserved, f.Observed, what)
	e.Emit(metric.SchedulerForecastError, f.Error, what)
}

// emitLocality emits how much cached prefixes count, and what they give.
func emitLocality(e *telemetry.Emitter, s *scheduler.State) {
	w := s.LocalitySwitch()
	for model, l := range s.Localities() {
		if w != nil {
			l.Weight = w.Weight
		}
		e.Emit(metric.LocalityWeight, l.Weight, model)
		e.Emit(metric.LocalityLowered, float64(l.Lowered), model)
		if !math.IsNaN(l.Hit) {
			e.Emit(metric.FleetHitRatio, l.Hit, model)
			e.Emit(metric.FleetHitRatioAfterLoss, l.Spared, model)
		}
	}
}

// Scheduler collects the metrics of decisions: refusals, their stages, prompts
// that engines confirmed, salts, and quotas.
func Scheduler(s *scheduler.State) func(*telemetry.Emitter) {
	return func(e *telemetry.Emitter) {
		st := s.Stats()
		for reason, n := range st.Refused {
			e.Emit(metric.Refused, float64(n), reason)
		}
		e.Emit(metric.SchedulerBuiltin, float64(st.Faults))
		e.Emit(metric.SchedulerPassedOver, float64(st.Passed))
		for rule, n := range st.Moves {
			e.Emit(metric.SchedulerMoves, float64(n), rule)
		}
		emitForecasts(e, "ttft", &st.TTFT)
		emitForecasts(e, "tpot", &st.TPOT)
		emitLocality(e, s)
		e.Emit(metric.SchedulerRetries, float64(st.Retries))
		e.Emit(metric.SchedulerRepeated, float64(st.Repeated))
		e.Emit(metric.PromptAgreed, float64(st.PromptAgreed))
		e.Emit(metric.PromptDiffered, float64(st.PromptDiffered))
		for i, name := range scheduler.StageNames {
			e.EmitDurations(metric.StageSeconds, &st.Stages[i], name)
		}
		for reason, n := range st.Unsalted {
			e.Emit(metric.UnsaltedRequests, float64(n), reason)
		}
		e.Emit(metric.ClientSalts, float64(st.ClientSalts))
		q := s.Quota()
		e.Emit(metric.QuotaBudgets, float64(q.Accounts))
		e.Emit(metric.QuotaShared, float64(q.Shared))
		for limit, n := range q.Refused {
			e.Emit(metric.QuotaRefused, float64(n), limit)
		}
	}
}

// Queue collects the metrics of requests that wait for a place.
func Queue(q *queue.Queue) func(*telemetry.Emitter) {
	return func(e *telemetry.Emitter) {
		st := q.Stats()
		e.Emit(metric.QueueWaiting, float64(st.Waiting))
		e.Emit(metric.QueueEnded, float64(st.Placed), "placed")
		e.Emit(metric.QueueEnded, float64(st.Expired), "expired")
		e.Emit(metric.QueueEnded, float64(st.Left), "client_gone")
		e.Emit(metric.QueueEnded, float64(st.Full), "full")
		e.Emit(metric.QueueEnded, float64(st.Slow), "too_slow")
		e.EmitDurations(metric.QueueSeconds, &st.Waits)
	}
}

// Credentials collects the results of checks of credentials.
func Credentials(s *identity.Store) func(*telemetry.Emitter) {
	return func(e *telemetry.Emitter) {
		st := s.Stats()
		e.Emit(metric.Credentials, float64(st.Accepted), "accepted")
		e.Emit(metric.Credentials, float64(st.Anonymous), "anonymous")
		e.Emit(metric.Credentials, float64(st.Missing), "missing")
		e.Emit(metric.Credentials, float64(st.Unknown), "unknown")
		e.Emit(metric.Credentials, float64(st.Limited), "limited")
	}
}

// Audit collects the metrics of the audit log.
func Audit(l *audit.Log) func(*telemetry.Emitter) {
	return func(e *telemetry.Emitter) {
		head := l.Head()
		e.Emit(metric.AuditLines, float64(head.Seq))
		e.Emit(metric.AuditHead, float64(head.Number()))
		e.Emit(metric.AuditFailures, float64(l.Failures()))
	}
}
