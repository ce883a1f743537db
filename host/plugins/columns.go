package plugins

import (
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// reading is which columns a plugin reads.
type reading struct {
	want   scheduler.ColumnSet
	shown  []int // abi.Col… of the float32 columns that the scheduler's batch has
	labels bool
	ids    bool // endpoint_id or published columns
	states bool // adapter_state
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

// add adds the column of a name.
func (r *reading) add(name string) {
	id := slices.IndexFunc(abi.Columns[:], func(c abi.Column) bool { return c.Name == name })
	switch {
	case id < 0:
		label := strings.HasPrefix(name, "label/")
		r.labels = r.labels || label
		r.ids = r.ids || !label && strings.Contains(name, "/")
		return
	case id == abi.ColEndpointID:
		r.ids = true
	case id == abi.ColAdapterState:
		r.states = true
	case !slices.Contains(r.shown, id):
		r.shown = append(r.shown, id)
	}
	r.want = r.want.Of(scheduler.Column(id))
}

// show shows the columns of b that the plugin reads.
func (v *views) show(r *reading, b *scheduler.Batch) {
	for _, c := range r.shown {
		v.b.Columns[c] = b.Column(c)
	}
	if r.states {
		v.adapters = v.adapters[:0]
		for _, s := range b.Column(abi.ColAdapterState) {
			v.adapters = append(v.adapters, uint32(s))
		}
		v.b.AdapterStates = v.adapters
	}
	v.infos = b.Infos
	if r.ids {
		v.ids = v.ids[:0]
		for i, id := range b.Endpoints {
			v.ids = append(v.ids, abi.EndpointID(uint32(id), b.Infos[i].Epoch))
		}
		v.b.EndpointIDs = v.ids
	}
}
