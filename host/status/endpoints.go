package status

import (
	"context"
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// stateWord returns the state of an endpoint by which requests are placed: ready,
// breaker open or half open, cordoned or draining (by the autoscaler), held cordoned or
// held drained (by an operator), sleeping, or not ready.
func stateWord(s *endpoint.State, b endpoint.BreakerState) string {
	switch {
	case s.Held != endpoint.HoldNone:
		return "held " + s.Held.String()
	case !s.Ready:
		return "not ready"
	case s.Sleeping:
		return "sleeping"
	case s.Draining:
		return "draining"
	case b == endpoint.BreakerOpen:
		return "breaker open"
	case b == endpoint.BreakerHalfOpen:
		return "breaker half open"
	case s.Cordoned:
		return "cordoned"
	}
	return "ready"
}

// breakerReason reports why a breaker keeps requests away, "" if it does not.
func breakerReason(b endpoint.Breaker) string {
	switch {
	case b.State == endpoint.BreakerHalfOpen:
		return fmt.Sprintf("breaker half open: %d requests in a row failed; the next one is a probe", b.Failures)
	case b.State != endpoint.BreakerOpen:
		return ""
	case b.Left == 0:
		return fmt.Sprintf("breaker open: %d requests in a row failed; a probe is under way", b.Failures)
	}
	return fmt.Sprintf("breaker open: %d requests in a row failed; next probe in %.1f s", b.Failures,
		b.Left.Seconds())
}

// Endpoints implements admin.Status: it returns every endpoint.
func (r *Reporter) Endpoints(context.Context) ([]admin.Endpoint, error) {
	snap, now := r.cfg.Store.Load(), time.Now()
	out := []admin.Endpoint{}
	for i := range snap.N {
		id := endpoint.ID(i)
		info := snap.Info(id)
		if info == nil {
			continue
		}
		st, breaker := snap.State(id), snap.Loads[i].Breaker(now)
		e := admin.Endpoint{
			URL: info.URL, Pool: info.Pool, Dialect: info.Dialect,
			Ready:  snap.Ready.Has(id) && breaker.State != endpoint.BreakerOpen,
			Reason: snap.Reasons[id], Held: st.Held.String(), State: stateWord(&st, breaker.State),
			Events: st.Events.String(), Trust: st.Trust, BlockTokens: st.BlockTokens, CacheBlocks: st.CacheBlocks,
			Earlier: st.EarlierBlocks, MaxModelLen: st.MaxModelLen, Models: st.Models,
			Running: st.Running, Waiting: st.Waiting, KVUsage: st.KVUsage,
			Inflight: snap.Loads[i].Inflight(), Outstanding: snap.Loads[i].Outstanding(), ScrapedAt: st.ScrapedAt,
		}
		if snap.Ready.Has(id) {
			e.Reason = breakerReason(breaker)
		}
		if w := r.cfg.Watcher(id); w != nil {
			ws := w.Status()
			e.EventsReason, e.EventSource = ws.EventsReason, ws.Publisher
			e.Version, e.Restarts = ws.Capabilities.Version, ws.Restarts
			e.FiguresWhy = ws.FiguresReason
			e.Unverified = ws.Trust.Unverified
			e.Isolation, e.ProbedAt, e.ProbeFault = ws.Probe.Isolation, ws.Probe.At, ws.Probe.Fault
			e.IsolationWhy, e.ProbeTokens = ws.Probe.Reason, ws.Probe.Tokens
		}
		out = append(out, e)
	}
	return out, nil
}
