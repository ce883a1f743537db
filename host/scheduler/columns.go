package scheduler

import (
	"math/bits"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Column is a column of the plugin ABI (abi.Col…), or ColInfos.
type Column uint8

// ColInfos stands for Batch.Infos.
const ColInfos Column = 63

// ColumnSet is a set of columns, bit by Column. A column that a Batch does not hold
// for every decision is filled only if an extension reads it.
type ColumnSet uint64

const (
	// AllColumns is the set of all.
	AllColumns ColumnSet = 1<<abi.NumColumns - 1 | 1<<ColInfos

	reportedColumns ColumnSet = 1<<abi.ColRunning | 1<<abi.ColWaiting | 1<<abi.ColKVUsage | 1<<abi.ColAgeMS
	tierColumns     ColumnSet = 1<<abi.ColMatchedTokensGPU | 1<<abi.ColMatchedTokensCPU | 1<<abi.ColMatchedTokensDisk
)

// Of returns s with c.
func (s ColumnSet) Of(c Column) ColumnSet { return s | 1<<c }

// Has reports whether c is in s.
func (s ColumnSet) Has(c Column) bool { return s>>c&1 == 1 }

// next returns the least column of s and s without it. s is not empty.
func (s ColumnSet) next() (Column, ColumnSet) {
	return Column(bits.TrailingZeros64(uint64(s))), s & (s - 1)
}

// sources are the columns of Batch.More: the value of each for candidate i. A column
// without a source is a field of Batch (Batch.Column), or this host does not know it. A
// new column is a row of the registry in abi/gen and one of these.
var sources = [abi.NumColumns]func(d *decision, i int) float32{
	abi.ColMatchedRatio:   func(d *decision, i int) float32 { return d.b.Matched[i] / float32(max(d.tokens, 1)) },
	abi.ColKVCachedTokens: func(d *decision, i int) float32 { return float32(d.snap.Cached[d.b.Endpoints[i]]) },
	abi.ColKVCapacityTokens: func(d *decision, i int) float32 {
		id := d.b.Endpoints[i]
		return float32(d.snap.CacheBlocks[id]) * float32(d.snap.BlockTokens[id])
	},
	abi.ColKVEvictRate: func(d *decision, i int) float32 { return d.snap.EvictRate[d.b.Endpoints[i]] },
	abi.ColEstPrefillMS: func(d *decision, i int) float32 {
		return tokensMillis(d.b.Uncached[i], d.b.Rates[i], d.meanRate)
	},
	abi.ColEstQueueMS: func(d *decision, i int) float32 {
		return tokensMillis(d.b.Outstanding[i], d.b.Rates[i], d.meanRate)
	},
	abi.ColEstITLMS: func(d *decision, i int) float32 { return d.loads[i].ITLMillis() },
	abi.ColDecodeRate: func(d *decision, i int) float32 {
		if itl := d.loads[i].ITLMillis(); itl > 0 {
			return 1e3 / itl
		}
		return 0
	},
	abi.ColRTTMS: func(d *decision, i int) float32 { return d.snap.RTTMS[d.b.Endpoints[i]] },
	abi.ColEventsAgeMS: func(d *decision, i int) float32 {
		return endpoint.AgeMS(d.snap.EventAt[d.b.Endpoints[i]], d.now)
	},
	abi.ColAdapterState: func(d *decision, i int) float32 { return d.adapterState(d.b.Endpoints[i]) },
	abi.ColWarmAgeMS: func(d *decision, i int) float32 {
		return float32(d.loads[i].ReadyFor(d.now)) / float32(time.Millisecond)
	},
	abi.ColErrorRate:      func(d *decision, i int) float32 { return d.loads[i].ErrorRate(d.now) },
	abi.ColPrice:          func(d *decision, i int) float32 { return d.snap.Infos[d.b.Endpoints[i]].Price },
	abi.ColSpot:           func(d *decision, i int) float32 { return float32(b2i(d.snap.Infos[d.b.Endpoints[i]].Spot)) },
	abi.ColAffinityWeight: func(d *decision, _ int) float32 { return d.b.Affinity },
	abi.ColSessionMatch:   func(d *decision, i int) float32 { return float32(b2i(i == d.home)) },
}

// sourced are the columns that have a source.
var sourced = func() (s ColumnSet) {
	for c, value := range sources {
		if value != nil {
			s = s.Of(Column(c))
		}
	}
	return s
}()

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
	own := want & sourced
	if stride := (n + 15) &^ 15; b.held != own || b.room < stride {
		mem := make([]float32, stride*bits.OnesCount64(uint64(own)))
		b.held, b.room = own, stride
		for c := range b.More {
			if b.More[c] = nil; own.Has(Column(c)) {
				b.More[c], mem = mem[:0:stride], mem[stride:]
			}
		}
	}
	for rest := b.held; rest != 0; {
		var c Column
		c, rest = rest.next()
		b.More[c] = b.More[c][:n]
	}
}

// fillMore fills the wanted columns of More.
func (d *decision) fillMore(want ColumnSet) {
	b := &d.b
	b.more(want, b.N)
	d.meanRate, d.home = meanRate(b.Rates), -1
	if want.Has(abi.ColSessionMatch) {
		d.home = d.homeColumn(d.sessionKey())
	}
	for rest := b.held; rest != 0; {
		var c Column
		c, rest = rest.next()
		value, col := sources[c], b.More[c]
		for i := range col {
			col[i] = value(d, i)
		}
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
