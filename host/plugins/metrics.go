package plugins

import (
	"maps"
	"slices"

	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// Collect tells what plugins did. A module that is loaded with several
// configs counts as one.
func (m *Manager) Collect(e *telemetry.Emitter) {
	var names []pluginKey
	all := map[pluginKey]wasm.Stats{}
	observed, unheard := map[pluginKey]uint64{}, map[pluginKey]uint64{}
	for _, p := range m.table.list() {
		k, st := pluginKey{name: p.key.name, digest: p.key.digest}, p.Stats()
		sum, there := all[k]
		if !there {
			names = append(names, k)
			sum.Faults = map[wasm.Reason]uint64{}
		}
		observed[k], unheard[k] = observed[k]+p.observed.Load(), unheard[k]+p.unheard.Load()
		sum.Calls, sum.Abstained, sum.Busy = sum.Calls+st.Calls, sum.Abstained+st.Abstained, sum.Busy+st.Busy
		sum.LastUnits, sum.CallNanos = max(sum.LastUnits, st.LastUnits), max(sum.CallNanos, st.CallNanos)
		sum.Quarantined = sum.Quarantined || st.Quarantined
		for r, n := range st.Faults {
			sum.Faults[r] += n
		}
		all[k] = sum
	}
	for _, k := range names {
		st, labels := all[k], []string{"plugin", k.name, "digest", k.digest}
		quarantined := 0.0
		if st.Quarantined {
			quarantined = 1
		}
		e.Counter("kvasir_plugin_calls_total", "Calls of a plugin that were answered.", float64(st.Calls), labels...)
		e.Counter("kvasir_plugin_abstained_total", "Calls in which a plugin had no opinion.", float64(st.Abstained), labels...)
		e.Counter("kvasir_plugin_busy_total", "Calls for which a plugin had no free instance.", float64(st.Busy), labels...)
		e.Counter("kvasir_plugin_observed_total", "Outcomes of requests that a plugin was told of.", float64(observed[k]), labels...)
		e.Counter("kvasir_plugin_unobserved_total", "Outcomes of requests that a plugin failed to take.", float64(unheard[k]), labels...)
		e.Gauge("kvasir_plugin_fuel_units", "Units of fuel, about instructions, that a timed call used.", float64(st.LastUnits), labels...)
		e.Gauge("kvasir_plugin_call_seconds", "Moving mean of the time a call takes.", st.CallNanos/1e9, labels...)
		e.Gauge("kvasir_plugin_quarantined", "1 if a plugin is not asked because of its faults.", quarantined, labels...)
		for _, r := range slices.Sorted(maps.Keys(st.Faults)) {
			e.Counter("kvasir_plugin_faults_total", "Calls in which a plugin was at fault, by reason.", float64(st.Faults[r]), append(labels, "reason", string(r))...)
		}
	}
	keys, _ := m.asideModules()
	for _, k := range keys {
		e.Gauge("kvasir_plugin_aside", "1 for a plugin's module that does not load: another version, or the built-in, stands in.", 1, "plugin", k.name, "source", k.source, "digest", k.digest)
	}
	e.Counter("kvasir_plugin_loads_total", "Plugins loaded; each was put in force with the rules that name it, or refused with them.", float64(m.table.loads.Load()))
	const dropped = "Outcomes that no plugin was told of, by reason: they came too fast, or their endpoint is no more."
	e.Counter("kvasir_outcomes_dropped_total", dropped, float64(m.offPath.full.Load()), "reason", "queue_full")
	e.Counter("kvasir_outcomes_dropped_total", dropped, float64(m.offPath.gone.Load()), "reason", "endpoint_gone")
	m.offPath.shadows.collect(e)
	for _, s := range m.metrics.Snapshot() {
		e.Gauge("kvasir_plugin_reported", "Numbers that plugins report themselves.", s.Value, "plugin", s.Plugin, "name", s.Name)
	}
}
