package scaling

import "github.com/kvasir-router/kvasir/host/telemetry"

// Collect emits the metrics of the controllers and of the room.
func (m *Manager) Collect(e *telemetry.Emitter) {
	for _, s := range m.Statuses() {
		for i := range s.Pools {
			p := &s.Pools[i]
			l := []string{"pool", p.Name}
			e.Gauge("kvasir_autoscale_ready", "Endpoints that serve.", float64(p.Ready), l...)
			e.Gauge("kvasir_autoscale_pending", "Endpoints that were ordered and do not serve.", float64(p.Pending), l...)
			e.Gauge("kvasir_autoscale_draining", "Endpoints that are to go.", float64(p.Draining), l...)
			e.Gauge("kvasir_autoscale_failing", "Endpoints that served and have been away for long.", float64(p.Failing), l...)
			e.Counter("kvasir_autoscale_never_came_total", "Endpoints that were ordered and given up.", float64(p.NeverCame), l...)
			e.Counter("kvasir_autoscale_driver_errors_total", "Calls of the driver that failed or were not believed.", float64(p.DriverErrors), l...)
		}
		if len(s.Pools) == 0 {
			continue
		}
		l := []string{"pool", s.Pools[0].Name}
		e.Gauge("kvasir_autoscale_desired", "Endpoints that the pool and its overflows are to have.", float64(s.Desired), l...)
		e.Gauge("kvasir_autoscale_work", "Offered work, in endpoint-seconds per second.", s.Proposal.Rate, l...)
		e.Gauge("kvasir_autoscale_backlog_seconds", "Accepted work that is not done, in endpoint-seconds.", s.Signal.Backlog, l...)
		e.Counter("kvasir_autoscale_override_faults_total", "Answers of the plugin that were faults: the built-in proposal was taken.", float64(s.Faults), l...)
		if s.Override != nil {
			e.Gauge("kvasir_autoscale_override", "Endpoints that the plugin asks for, followed or in shadow; absent while it is not heard.", float64(s.Override.Desired), l...)
		}
		scarce := 0.0
		if s.Capacity != "ok" {
			scarce = 1
		}
		e.Gauge("kvasir_autoscale_scarce", "1 if endpoints are wanted that do not come, or none serves.", scarce, l...)
	}
	m.room.collect(e)
}

func (r *Room) collect(e *telemetry.Emitter) {
	r.mu.Lock()
	held, refused, n := r.held, r.refused, 0
	for _, v := range r.pools {
		n += v
	}
	r.mu.Unlock()
	e.Gauge("kvasir_waiting_room", "Requests that wait for the first endpoint of a pool.", float64(n))
	e.Counter("kvasir_waiting_room_total", "Requests that ever waited for one.", float64(held))
	e.Counter("kvasir_waiting_room_refused_total", "Requests that were refused since too many waited.", float64(refused))
}
