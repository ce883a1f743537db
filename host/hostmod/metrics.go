package hostmod

import (
	"math"
	"sort"
	"sync"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/wasm"
)

const (
	maxSeries     = 64 // per plugin; a guest that makes up names cannot grow the host
	maxSeriesName = 64
)

// Series is one number a plugin reports.
type Series struct {
	Plugin, Name string
	Value        float64
	Counter      bool // added up, else the last value
}

// Metrics holds what plugins report. It is safe for concurrent use.
type Metrics struct {
	mu  sync.Mutex // guards all
	all map[string]map[string]*Series
}

// NewMetrics returns an empty Metrics.
func NewMetrics() *Metrics { return &Metrics{all: map[string]map[string]*Series{}} }

// Snapshot returns all series in order of plugin and name.
func (m *Metrics) Snapshot() []Series {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Series
	for _, s := range m.all {
		for _, x := range s {
			out = append(out, *x)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return a.Plugin < b.Plugin || a.Plugin == b.Plugin && a.Name < b.Name
	})
	return out
}

// report adds or sets a number. Names outside a-z, 0-9, _ and series above the
// limit are dropped; so are numbers that are not finite, and falling counters.
func (m *Metrics) report(plugin string, name []byte, v float64, counter bool) {
	if len(name) == 0 || len(name) > maxSeriesName || math.IsNaN(v) || math.IsInf(v, 0) || counter && v < 0 {
		return
	}
	for _, c := range name {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mine := m.all[plugin]
	if mine == nil {
		mine = map[string]*Series{}
		m.all[plugin] = mine
	}
	s := mine[string(name)]
	if s == nil {
		if len(mine) >= maxSeries {
			return
		}
		s = &Series{Plugin: plugin, Name: string(name), Counter: counter}
		mine[s.Name] = s
	}
	switch {
	case s.Counter != counter:
	case counter:
		s.Value += v
	default:
		s.Value = v
	}
}

// Module returns kvasir:metrics/1, which reports to m.
func (m *Metrics) Module() *wasm.HostModule {
	params := []wasm.Value{wasm.I32, wasm.I32, wasm.F64}
	call := func(counter bool) func(*wasm.Call, []uint64) {
		return func(c *wasm.Call, st []uint64) {
			if uint32(st[1]) > maxSeriesName {
				return
			}
			if name, ok := c.Read(uint32(st[0]), uint32(st[1])); ok {
				m.report(c.Plugin(), name, math.Float64frombits(st[2]), counter)
			}
		}
	}
	return &wasm.HostModule{Name: abi.ModuleMetrics, Funcs: []wasm.HostFunc{
		{Name: "add", Params: params, Call: call(true), Units: abi.FuelHostSystem},
		{Name: "set", Params: params, Call: call(false), Units: abi.FuelHostSystem},
	}}
}
