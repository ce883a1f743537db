package scaling

import (
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// Collect emits the metrics of the controllers and of the room.
func (m *Manager) Collect(e *telemetry.Emitter) {
	for _, s := range m.Statuses() {
		for i := range s.Pools {
			p := &s.Pools[i]
			l := []string{p.Name}
			e.Emit(metric.AutoscaleReady, float64(p.Ready), l...)
			e.Emit(metric.AutoscalePending, float64(p.Pending), l...)
			e.Emit(metric.AutoscaleDraining, float64(p.Draining), l...)
			e.Emit(metric.AutoscaleFailing, float64(p.Failing), l...)
			e.Emit(metric.AutoscaleNeverCame, float64(p.NeverCame), l...)
			e.Emit(metric.AutoscaleDriverErrors, float64(p.DriverErrors), l...)
		}
		if len(s.Pools) == 0 {
			continue
		}
		l := []string{s.Pools[0].Name}
		e.Emit(metric.AutoscaleDesired, float64(s.Desired), l...)
		e.Emit(metric.AutoscaleWork, s.Proposal.Rate, l...)
		e.Emit(metric.AutoscaleBacklogSeconds, s.Signal.Backlog, l...)
		e.Emit(metric.AutoscaleOverrideFaults, float64(s.Faults), l...)
		if s.Override != nil {
			e.Emit(metric.AutoscaleOverride, float64(s.Override.Desired), l...)
		}
		scarce := 0.0
		if s.Capacity != "ok" {
			scarce = 1
		}
		e.Emit(metric.AutoscaleScarce, scarce, l...)
	}
	m.room.collect(e)
}

func (r *Room) collect(e *telemetry.Emitter) {
	r.mu.Lock()
	held, refused, n := r.held, r.refused, 0
	for _, since := range r.pools {
		n += len(since)
	}
	r.mu.Unlock()
	e.Emit(metric.WaitingRoomOccupancy, float64(n))
	e.Emit(metric.WaitingRoom, float64(held))
	e.Emit(metric.WaitingRoomRefused, float64(refused))
}
