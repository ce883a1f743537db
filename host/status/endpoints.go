package status

import (
	"context"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// stateWord returns the state of an endpoint: ready, cordoned or draining (by the
// autoscaler), held cordoned or held drained (by an operator), sleeping, or not ready.
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

// Endpoints implements admin.Status: it returns every endpoint.
func (r *Reporter) Endpoints(context.Context) ([]admin.Endpoint, error) {
	snap := r.cfg.Store.Load()
	out := []admin.Endpoint{}
	for i := range snap.N {
		id := endpoint.ID(i)
		info := snap.Info(id)
		if info == nil {
			continue
		}
		st := snap.State(id)
		e := admin.Endpoint{
			URL: info.URL, Pool: info.Pool, Dialect: info.Dialect, Ready: snap.Ready.Has(id),
			Reason: snap.Reasons[id], Held: st.Held.String(), State: stateWord(&st),
			Events: st.Events.String(), Trust: st.Trust, BlockTokens: st.BlockTokens, CacheBlocks: st.CacheBlocks,
			MaxModelLen: st.MaxModelLen, Models: st.Models, Running: st.Running, Waiting: st.Waiting, KVUsage: st.KVUsage,
			Inflight: snap.Loads[i].Inflight(), Outstanding: snap.Loads[i].Outstanding(), ScrapedAt: st.ScrapedAt,
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
