package host

import (
	"os"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/route"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/decisions"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// openDecisions opens the decision log, if the configuration has one.
func (h *Host) openDecisions(c *config.DecisionLog) (err error) {
	if c.File == "" {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	h.decisions, err = decisions.Open(decisions.Config{
		File: c.File, SampleAllow: *c.SampleAllow, SamplePlacements: c.Placements, Mask: c.Mask,
		MaxBytes: int64(c.MaxSize), Keep: c.Keep, Sync: c.RequireAudit,
		Labels: map[string]string{"id": name, "version": h.opt.Version}, Log: h.log,
	})
	if err == nil {
		h.decisionLog = route.NewLog(h.decisions, c.RequireAudit)
	}
	return err
}

func (h *Host) collectDecisions(e *telemetry.Emitter) {
	if h.decisions == nil {
		return
	}
	st := h.decisions.Stats()
	failing := 0.0
	if st.Failing {
		failing = 1
	}
	e.Emit(metric.DecisionLogWritten, float64(st.Written))
	e.Emit(metric.DecisionLogDropped, float64(st.Dropped))
	e.Emit(metric.DecisionLogWaiting, float64(st.Waiting))
	e.Emit(metric.DecisionLogFailing, failing)
	e.Emit(metric.DecisionLogRefused, float64(h.decisionLog.Refused()))
}
