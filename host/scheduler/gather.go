package scheduler

import (
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// gather fills the batch with the candidates that are not filtered, whose breaker is
// closed, and which are below their cap. Its error says why none is left. Loads are
// filled only for extensions; the choice reads them again.
func (d *decision) gather() *DeniedError {
	d.resize(len(d.cands))
	n, capped := 0, false
	b := &d.b
	for i := range d.cands {
		c := &d.cands[i]
		if c.state != candKept {
			continue
		}
		if c.load.Open(d.now) {
			c.state, c.why = candFiltered, reasonBreaker
			continue
		}
		if limit := d.model.pools[c.pool].MaxInflight; limit > 0 && c.load.Inflight() >= int64(limit) {
			c.state, c.why, capped = candFiltered, reasonCap, true
			continue
		}
		c.col = int32(n)
		d.order[n], d.loads[n], b.Endpoints[n] = int32(i), c.load, c.id
		b.Matched[n], b.Uncached[n], b.Trust[n] = float32(c.matched), c.uncached, d.trustOf(c)
		b.Rates[n] = c.load.PrefillRate()
		n++
	}
	if n == 0 && capped || n > 0 && d.mustQueue() {
		return d.capacityRefusal()
	}
	if n == 0 {
		return errNoEndpoint(unavailable)
	}
	d.resize(n)
	fillSpeeds(b.Speed, b.Rates)
	d.applyPreferences()
	d.live = b.loads()
	d.meanWork, d.meanAnswer = float32(d.model.state.work.get()), float32(d.model.state.output.get())
	if d.meanWork == 0 {
		d.meanWork = otherTokens
	}
	d.fillDelays()
	if !d.prof.builtin {
		d.readLoads(d.live)
		d.want = d.prof.columnsRead()
		b.Capped = capped
		d.gatherMore()
	}
	b.PromptTokens, b.MaxTokens, b.Seed = uint32(d.tokens), uint32(d.maxTokens), d.seed
	b.NowMS = millis(d.now)
	return nil
}

// millis returns a time in Unix milliseconds.
func millis(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Millisecond) }

// gatherMore fills the columns that extensions read and the built-in does not.
func (d *decision) gatherMore() {
	v, b := d.snap, &d.b
	reported, tiers, infos := d.want&reportedColumns != 0, d.want&tierColumns != 0, d.want.Has(ColInfos)
	for i, id := range b.Endpoints {
		if reported {
			b.Running[i], b.Waiting[i], b.KVUsage[i] = float32(v.Running[id]), float32(v.Waiting[id]), v.KVUsage[id]
			b.AgeMS[i] = v.AgeMS(id, d.now)
		}
		if infos {
			b.Infos[i] = v.Infos[id]
		}
		if tiers {
			for t, n := range d.cands[d.order[i]].tiers {
				b.Tiers[t][i] = float32(n)
			}
		}
	}
	d.fillMore(d.want)
	b.Priority, b.Adapter = float32(d.dec.Priority), d.adapter
	b.Op, b.BodyBytes, b.Session, b.Model = d.r.API.Op, len(d.r.API.Body), d.sessionKey(), d.model.name
	if b.Tenant = 0; d.r.Principal != nil {
		b.Tenant = d.s.st.hashID(d.r.Principal.Tenant)
	}
}

// resize gives the scratch of each candidate room for n.
func (d *decision) resize(n int) {
	d.b.resize(n)
	if cap(d.order) < n {
		m := (n + 15) &^ 15
		d.order, d.loads = make([]int32, m), make([]*endpoint.Load, m)
		d.drop, d.mask = make([]uint32, m), make([]uint32, m)
		for k := range d.parts {
			d.parts[k] = nil
		}
		d.total, d.groupCounts, d.modelCounts = make([]float32, m), make([]float32, m), make([]float32, m)
		d.over, d.joins = make([]reason, m), make([]bool, m)
	}
	d.order, d.loads = d.order[:n], d.loads[:n]
	d.drop, d.mask = d.drop[:n], d.mask[:n]
	d.total, d.groupCounts, d.modelCounts = d.total[:n], d.groupCounts[:n], d.modelCounts[:n]
	d.over, d.joins = d.over[:n], d.joins[:n]
}
