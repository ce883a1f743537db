package host

import (
	"errors"
	"os"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/policy"
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
		File: c.File, SampleAllow: *c.SampleAllow, Mask: c.Mask, MaxBytes: int64(c.MaxSize), Keep: c.Keep, Sync: c.RequireAudit,
		Labels: map[string]string{"id": name, "version": h.opt.Version}, Log: h.log,
	})
	if err == nil {
		h.decisionLog = route.NewLog(h.decisions, c.RequireAudit)
	}
	return err
}

// logPolicy is what the decision log asks of a policy. It is immutable.
type logPolicy struct {
	*policy.Snapshot
	mask *policy.LogMask // nil = the policy has none
}

// newLogPolicy returns nil for no policy.
func newLogPolicy(s *policy.Snapshot) (decisions.Policy, error) {
	if s == nil {
		return nil, nil
	}
	m, err := s.LogMask()
	if err != nil && !errors.Is(err, policy.ErrNoRule) {
		return nil, err
	}
	return &logPolicy{s, m}, nil
}

// Mask implements decisions.Policy.
func (p *logPolicy) Mask(event map[string]any) ([]any, error) {
	if p.mask == nil {
		return nil, nil
	}
	return p.mask.Rules(event)
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
