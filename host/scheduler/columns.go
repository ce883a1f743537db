package scheduler

import (
	"math/bits"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Column is a column of a Batch that is filled only if an extension reads it.
type Column uint8

const (
	ColReported     Column = iota // Batch.Running, Waiting, KVUsage and AgeMS
	ColTiers                      // Batch.Tiers
	ColInfos                      // Batch.Infos
	ColCached                     // tokens that the index knows to be cached there
	ColCapacity                   // tokens its KV memory holds, 0 = unknown
	ColEvictRate                  // tokens/s evicted
	ColEstPrefill                 // ms to compute the uncached tokens, 0 = unknown
	ColEstQueue                   // ms until that begins, 0 = unknown
	ColITL                        // ms between two output tokens, 0 = unknown
	ColDecodeRate                 // output tokens/s of one request, 0 = unknown
	ColRTT                        // ms, 0 = unknown
	ColEventsAge                  // ms since the last cache event
	ColAdapterState               // Adapter…, as a number
	ColWarmAge                    // ms since it takes requests
	ColErrorRate                  // share of failed requests, in [0, 1]
	ColPrice                      // 0 = not set
	ColSpot                       // 1 = may be taken away
	ColSessionMatch               // 1 = the session was placed there last
	NumColumns
)

// ColumnSet is a set of columns, bit by Column.
type ColumnSet uint32

// AllColumns is the set of all.
const AllColumns ColumnSet = 1<<NumColumns - 1

// Of returns s with c.
func (s ColumnSet) Of(c Column) ColumnSet { return s | 1<<c }

// Has reports whether c is in s.
func (s ColumnSet) Has(c Column) bool { return s>>c&1 == 1 }

// columnNames are the names in explain: those of the plugin ABI.
var columnNames = [NumColumns]string{ColCached: "kv_cached_tokens", ColCapacity: "kv_capacity_tokens", ColEvictRate: "kv_evict_rate",
	ColEstPrefill: "est_prefill_ms", ColEstQueue: "est_queue_ms", ColITL: "est_itl_ms", ColDecodeRate: "decode_rate", ColRTT: "rtt_ms",
	ColEventsAge: "events_age_ms", ColAdapterState: "adapter_state", ColWarmAge: "warm_age_ms", ColErrorRate: "error_rate",
	ColPrice: "price", ColSpot: "spot", ColSessionMatch: "session_match"}

// Wanter is implemented by scorers, filters and pickers that know which columns
// they read. For others all columns are filled.
type Wanter interface{ Wants() ColumnSet }

// wants returns the columns that the extensions of p read.
func (p *Profile) wants() (all ColumnSet) {
	p.eachExtension(func(v extension) {
		switch w, ok := v.(Wanter); {
		case ok:
			all |= w.Wants()
		case v != nil:
			all |= AllColumns
		}
	})
	return all
}

// States of a LoRA adapter on an endpoint.
const (
	AdapterNone    = 0 // the request names none
	AdapterLoaded  = 1 // requests ran with it at the last scrape
	AdapterKnown   = 2 // the engine lists it
	AdapterUnknown = 3 // the engine lists no models at all
)

// more gives the wanted columns of More room for n candidates, reusing memory.
func (b *Batch) more(want ColumnSet, n int) {
	own := want &^ (1<<ColCached - 1)
	if stride := (n + 15) &^ 15; b.held != own || b.room < stride {
		mem := make([]float32, stride*bits.OnesCount32(uint32(own)))
		b.held, b.room = own, stride
		for c := range b.More {
			if b.More[c] = nil; own.Has(Column(c)) {
				b.More[c], mem = mem[:0:stride], mem[stride:]
			}
		}
	}
	for c := range b.More {
		if b.More[c] != nil {
			b.More[c] = b.More[c][:n]
		}
	}
}

// fillMore fills the wanted columns of More.
func (d *decision) fillMore(want ColumnSet) {
	b := &d.b
	b.more(want, b.N)
	rate := meanRate(b.Rates)
	session := -1
	if want.Has(ColSessionMatch) {
		session = d.homeColumn(d.sessionKey())
	}
	for c := range b.More {
		col := b.More[c]
		if col == nil {
			continue
		}
		for i := range col {
			col[i] = d.value(Column(c), i, rate)
		}
	}
	if session >= 0 {
		b.More[ColSessionMatch][session] = 1
	}
}

// meanRate is the mean of the learned prefill rates, 0 where none is learned.
func meanRate(rates []float32) float32 {
	var sum float32
	known := 0
	for _, r := range rates {
		if r > 0 {
			sum += r
			known++
		}
	}
	return sum / float32(max(known, 1))
}

// value returns the value of a column for candidate i; rate is the mean prefill rate.
func (d *decision) value(c Column, i int, rate float32) float32 {
	b, v := &d.b, d.snap
	id, load := b.Endpoints[i], d.loads[i]
	switch c {
	case ColCached:
		return float32(v.Cached[id])
	case ColCapacity:
		return float32(v.CacheBlocks[id]) * float32(v.BlockTokens[id])
	case ColEvictRate:
		return v.EvictRate[id]
	case ColEstPrefill:
		return tokensMillis(b.Uncached[i], b.Rates[i], rate)
	case ColEstQueue:
		return tokensMillis(b.Outstanding[i], b.Rates[i], rate)
	case ColITL:
		return load.ITLMillis()
	case ColDecodeRate:
		if itl := load.ITLMillis(); itl > 0 {
			return 1e3 / itl
		}
	case ColRTT:
		return v.RTTMS[id]
	case ColEventsAge:
		return endpoint.AgeMS(v.EventAt[id], d.now)
	case ColAdapterState:
		return d.adapterState(id)
	case ColWarmAge:
		return float32(load.ReadyFor(d.now)) / float32(time.Millisecond)
	case ColErrorRate:
		return load.ErrorRate(d.now)
	case ColPrice:
		return v.Infos[id].Price
	case ColSpot:
		return float32(b2i(v.Infos[id].Spot))
	}
	return 0
}

// tokensMillis returns the milliseconds that tokens take at a rate, at the mean if the
// rate is not learned yet, 0 if neither is.
func tokensMillis(tokens, rate, mean float32) float32 {
	if rate <= 0 {
		rate = mean
	}
	if rate <= 0 {
		return 0
	}
	return tokens / rate * 1e3
}

// adapterState returns one of the Adapter constants for the adapter asked for.
func (d *decision) adapterState(id endpoint.ID) float32 {
	switch {
	case d.adapter == "":
		return AdapterNone
	case d.snap.Loaded(id, d.adapter):
		return AdapterLoaded
	case d.snap.Adapter(d.adapter).Has(id):
		return AdapterKnown
	}
	return AdapterUnknown
}
