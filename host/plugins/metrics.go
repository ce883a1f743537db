package plugins

import (
	"maps"
	"slices"

	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// Collect emits the metrics of plugins. A module that is loaded with several
// configs counts as one.
func (m *Manager) Collect(e *telemetry.Emitter) {
	var names []pluginKey
	all := map[pluginKey]wasm.Stats{}
	observed, unobserved := map[pluginKey]uint64{}, map[pluginKey]uint64{}
	for _, p := range m.table.list() {
		k, st := pluginKey{name: p.key.name, digest: p.key.digest}, p.Stats()
		sum, there := all[k]
		if !there {
			names = append(names, k)
			sum.Faults = map[wasm.Reason]uint64{}
		}
		observed[k], unobserved[k] = observed[k]+p.observed.Load(), unobserved[k]+p.unobserved.Load()
		sum.Calls, sum.Abstained, sum.Busy = sum.Calls+st.Calls, sum.Abstained+st.Abstained, sum.Busy+st.Busy
		sum.LastUnits, sum.CallNanos = max(sum.LastUnits, st.LastUnits), max(sum.CallNanos, st.CallNanos)
		sum.Quarantined = sum.Quarantined || st.Quarantined
		for r, n := range st.Faults {
			sum.Faults[r] += n
		}
		all[k] = sum
	}
	for _, k := range names {
		st, labels := all[k], []string{k.name, k.digest}
		quarantined := 0.0
		if st.Quarantined {
			quarantined = 1
		}
		e.Emit(metric.PluginCalls, float64(st.Calls), labels...)
		e.Emit(metric.PluginAbstained, float64(st.Abstained), labels...)
		e.Emit(metric.PluginBusy, float64(st.Busy), labels...)
		e.Emit(metric.PluginObserved, float64(observed[k]), labels...)
		e.Emit(metric.PluginUnobserved, float64(unobserved[k]), labels...)
		e.Emit(metric.PluginFuelUnits, float64(st.LastUnits), labels...)
		e.Emit(metric.PluginCallSeconds, st.CallNanos/1e9, labels...)
		e.Emit(metric.PluginQuarantined, quarantined, labels...)
		for _, r := range slices.Sorted(maps.Keys(st.Faults)) {
			e.Emit(metric.PluginFaults, float64(st.Faults[r]), append(labels, string(r))...)
		}
	}
	keys, _ := m.asideModules()
	for _, k := range keys {
		e.Emit(metric.PluginAside, 1, k.name, k.source, k.digest)
	}
	e.Emit(metric.PluginLoads, float64(m.table.loads.Load()))
	e.Emit(metric.OutcomesDropped, float64(m.offPath.full.Load()), "queue_full")
	e.Emit(metric.OutcomesDropped, float64(m.offPath.gone.Load()), "endpoint_gone")
	m.offPath.shadows.collect(e)
	for _, s := range m.metrics.Snapshot() {
		e.Emit(metric.PluginReported, s.Value, s.Plugin, s.Name)
	}
}
