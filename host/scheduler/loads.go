package scheduler

// loadColumns are what the candidates of a decision have to do, [N] each, as in Batch.
type loadColumns struct{ outstanding, inflight, kv []float32 }

// loads returns the columns of the batch.
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

// read sets dst to the loads of this moment.
func (d *decision) read(dst loadColumns) {
	for i, l := range d.loads {
		dst.outstanding[i], dst.inflight[i], dst.kv[i] = float32(l.Outstanding()), float32(l.Inflight()), float32(l.KVActive())
	}
}

// rate has the candidates' costs take account of the loads of this moment. The
// built-in scores by them. The scores of extensions are of the loads that they
// were called with; what their cost has grown by since is added in costs. The
// lane is locked.
func (d *decision) rate() {
	if d.prof.builtin || d.source == sourceBuiltin {
		d.read(d.live)
		if d.prof.builtin {
			d.score()
		} else {
			d.prof.native.Score(&d.b)
		}
		return
	}
	d.liveMem.resize(d.b.N)
	d.live = d.liveMem
	d.read(d.live)
}

// growth returns what the built-in cost of a column has grown by since the
// extensions were called. Scores that are not in tokens do not grow: then the
// envelope and ties alone go by the loads of this moment.
func (d *decision) growth(i int) float32 {
	if d.unit != CostTokens {
		return 0
	}
	b := &d.b
	was := d.prof.native.cost(b.Uncached[i], b.Outstanding[i], b.Inflight[i], b.KVActive[i], b.Speed[i])
	is := d.prof.native.cost(b.Uncached[i], d.live.outstanding[i], d.live.inflight[i], d.live.kv[i], b.Speed[i])
	return d.prof.scale * (is - was)
}

// atCap reports whether an endpoint has taken its last request since the
// candidates were gathered.
func (d *decision) atCap(i int) bool {
	limit := d.model.pools[d.cands[d.order[i]].pool].MaxInflight
	return limit > 0 && d.live.inflight[i] >= float32(limit)
}
