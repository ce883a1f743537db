package scheduler

// loadColumns are the loads of a decision's candidates, [N] each, as in Batch.
type loadColumns struct{ outstanding, inflight, kv []float32 }

// loads returns the load columns of the batch.
func (b *Batch) loads() loadColumns { return loadColumns{b.Outstanding, b.Inflight, b.KVActive} }

// resize gives the columns room for n candidates, reusing memory.
func (l *loadColumns) resize(n int) {
	if cap(l.kv) < n {
		m := (n + 15) &^ 15
		mem := make([]float32, 3*m)
		l.outstanding, l.inflight, l.kv = mem[:m:m], mem[m:2*m:2*m], mem[2*m:]
	}
	l.outstanding, l.inflight, l.kv = l.outstanding[:n], l.inflight[:n], l.kv[:n]
}

// readLoads sets dst to the present loads: what this router has in flight, what the
// engines report of others, and what their lack of progress shows.
func (d *decision) readLoads(dst loadColumns) {
	for i, l := range d.loads {
		dst.outstanding[i], dst.inflight[i] = float32(l.Outstanding()), float32(l.Inflight())
		dst.kv[i] = float32(l.KVActive())
		if id := d.b.Endpoints[i]; d.snap.Others[id].Requests > 0 {
			d.addOthers(dst, i, id)
		}
		if stalled := l.Stalled(d.now); stalled > stallMargin {
			dst.outstanding[i] += stallTokens(stalled, dst.outstanding[i], d.b.Rates[i], l.ITLMillis())
		}
	}
	if d.model.weighted {
		d.weighLoads(dst)
	}
}

// weighLoads scales the loads of each pool by its weight: an endpoint with three times
// the weight is as loaded as another with a third of its work.
func (d *decision) weighLoads(dst loadColumns) {
	for i := range d.loads {
		f := d.factor(i)
		dst.outstanding[i], dst.inflight[i], dst.kv[i] = f*dst.outstanding[i], f*dst.inflight[i], f*dst.kv[i]
	}
}

// factor returns how much the loads of a column count.
func (d *decision) factor(i int) float32 { return d.model.pools[d.cands[d.order[i]].pool].factor }

// refreshLoads reads the loads again, by which the choice is made. The built-in
// scores here. Extensions have scored the loads that they were called with; costs
// adds what has changed since. The lane is locked.
func (d *decision) refreshLoads() {
	if d.prof.builtin || d.source == sourceBuiltin {
		d.readLoads(d.live)
		if d.prof.builtin {
			d.score()
		} else {
			d.prof.native.Score(&d.b)
		}
		return
	}
	d.liveMem.resize(d.b.N)
	d.live = d.liveMem
	d.readLoads(d.live)
}

// costGrowth returns by how much the built-in cost of a column has grown since the
// extensions were called, 0 if the scores are not in tokens: then only the envelope
// and the order of ties follow the present loads.
func (d *decision) costGrowth(i int) float32 {
	if d.unit != CostTokens {
		return 0
	}
	b := &d.b
	was := d.prof.native.cost(b.Uncached[i], b.Outstanding[i], b.Inflight[i], b.KVActive[i], b.Speed[i], 0)
	is := d.prof.native.cost(b.Uncached[i], d.live.outstanding[i], d.live.inflight[i], d.live.kv[i], b.Speed[i], 0)
	return d.prof.scale * (is - was)
}

// atCap reports whether an endpoint has reached its cap of requests.
func (d *decision) atCap(i int) bool {
	limit := d.model.pools[d.cands[d.order[i]].pool].MaxInflight
	return limit > 0 && d.loads[i].Inflight() >= int64(limit)
}
