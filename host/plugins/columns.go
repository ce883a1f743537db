package plugins

import (
	"strings"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// moreColumns are the columns of a batch that are filled where a plugin reads them.
var moreColumns = [scheduler.NumColumns]int{
	scheduler.ColCached: abi.ColKVCachedTokens, scheduler.ColCapacity: abi.ColKVCapacityTokens, scheduler.ColEvictRate: abi.ColKVEvictRate,
	scheduler.ColEstPrefill: abi.ColEstPrefillMS, scheduler.ColEstQueue: abi.ColEstQueueMS, scheduler.ColITL: abi.ColEstITLMS,
	scheduler.ColDecodeRate: abi.ColDecodeRate, scheduler.ColRTT: abi.ColRTTMS, scheduler.ColEventsAge: abi.ColEventsAgeMS,
	scheduler.ColAdapterState: abi.ColAdapterState, scheduler.ColWarmAge: abi.ColWarmAgeMS, scheduler.ColErrorRate: abi.ColErrorRate,
	scheduler.ColPrice: abi.ColPrice, scheduler.ColSpot: abi.ColSpot, scheduler.ColSessionMatch: abi.ColSessionMatch,
}

// reading is which columns a plugin reads that are not there for nothing.
type reading struct {
	want     scheduler.ColumnSet
	ratio    bool // matched_ratio
	labels   bool
	ids      bool // endpoint_id or published columns
	affinity bool
}

// readingOf returns what a plugin's hot roles read.
func readingOf(m *wasm.Manifest) (r reading) {
	for role, s := range m.Roles {
		if s == nil || wasm.Role(role) == wasm.Observe {
			continue
		}
		for _, c := range s.Columns {
			r.add(c.Name)
		}
	}
	if r.labels || r.ids {
		r.want = r.want.Of(scheduler.ColInfos)
	}
	return r
}

func (r *reading) add(name string) {
	id := -1
	for i := range abi.Columns {
		if abi.Columns[i].Name == name {
			id = i
		}
	}
	switch id {
	case -1:
		label := strings.HasPrefix(name, "label/")
		r.labels = r.labels || label
		r.ids = r.ids || !label && strings.Contains(name, "/")
		return
	case abi.ColMatchedRatio:
		r.ratio = true
	case abi.ColAffinityWeight:
		r.affinity = true
	case abi.ColEndpointID:
		r.ids = true
	case abi.ColMatchedTokensGPU, abi.ColMatchedTokensCPU, abi.ColMatchedTokensDisk:
		r.want = r.want.Of(scheduler.ColTiers)
	case abi.ColRunning, abi.ColWaiting, abi.ColKVUsage, abi.ColAgeMS:
		r.want = r.want.Of(scheduler.ColReported)
	}
	for c := scheduler.ColCached; c < scheduler.NumColumns; c++ {
		if moreColumns[c] == id {
			r.want = r.want.Of(c)
		}
	}
}

// more shows the columns of b that are filled where a plugin reads them.
func (v *views) more(b *scheduler.Batch) {
	for c := scheduler.ColCached; c < scheduler.NumColumns; c++ {
		if c != scheduler.ColAdapterState {
			v.b.Columns[moreColumns[c]] = b.More[c]
		}
	}
	v.adapters = v.adapters[:0]
	for _, s := range b.More[scheduler.ColAdapterState] {
		v.adapters = append(v.adapters, uint32(s))
	}
	if v.b.AdapterStates = nil; len(v.adapters) > 0 {
		v.b.AdapterStates = v.adapters
	}
}

// full returns n times x in the memory of dst.
func full(dst []float32, n int, x float32) []float32 {
	dst = dst[:0]
	for range n {
		dst = append(dst, x)
	}
	return dst
}
