package scheduler

import (
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// An engine may serve more than this router sends it: other routers, batch jobs, people
// who try it out. What it reports beyond the router's own requests counts as load of
// the same kind, so that the built-in cost, plugins, envelope and ties all see it. It is
// an estimate: how many tokens a request of others has is not known, so it is taken to
// be as large as the model's own.

const (
	// othersFresh and othersStale are the ages of figures that count in full, and
	// no longer. Engines are read every second; three readings may be missed. After ten seconds most
	// requests of then are over.
	othersFresh = 3 * time.Second
	othersStale = 10 * time.Second
	// otherTokens is taken for the uncached prompt tokens of a request before the
	// model has had one.
	otherTokens = 1024
)

// othersWeight returns how much figures of an age count, in [0, 1].
func othersWeight(age time.Duration) float32 {
	if age <= othersFresh {
		return 1
	}
	return max(0, float32(othersStale-age)/float32(othersStale-othersFresh))
}

// addOthers adds the load of others on candidate i to its columns.
func (d *decision) addOthers(dst loadColumns, i int, id endpoint.ID) {
	o := &d.snap.Others[id]
	w := d.othersWeightOf(id)
	if w == 0 {
		return
	}
	kv := o.KVTokens
	if kv == 0 {
		kv = o.Requests * (d.meanWork + d.meanAnswer)
	}
	dst.outstanding[i] += float32(w * float32(o.Waiting*d.meanWork))
	dst.inflight[i] += float32(w * o.Requests)
	dst.kv[i] += float32(w * kv)
}

// othersWeightOf returns how much the figures of an endpoint count.
func (d *decision) othersWeightOf(id endpoint.ID) float32 {
	return othersWeight(time.Duration(d.now.UnixNano() - d.snap.ScrapedAt[id]))
}

// others returns the requests of others that count on an endpoint, for explain.
func (d *decision) others(id endpoint.ID) float32 {
	if d.snap.Others[id].Requests == 0 {
		return 0
	}
	return d.othersWeightOf(id) * d.snap.Others[id].Requests
}
