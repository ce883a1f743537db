package host

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/scheduler"
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

// errNoAudit refuses requests whose decision could not be logged.
var errNoAudit = &llmapi.Error{Status: http.StatusServiceUnavailable, Code: llmapi.CodeAuditUnavailable, Message: "the decision log cannot be written, and no request is served without it", RetryAfter: time.Second}

// reserveLog takes a place in the decision log where nothing may go unlogged.
// False: there is none, and the request is refused.
func (h *Host) reserveLog() (reserved, ok bool) {
	if h.decisions == nil || !h.cfg.Telemetry.DecisionLog.RequireAudit {
		return false, true
	}
	if h.decisions.Reserve() {
		return true, true
	}
	h.auditRefused.Add(1)
	return false, false
}

// logDecision logs what was decided about a request: p where it went, or err
// why it did not.
func (h *Host) logDecision(g *generation, r *scheduler.Request, p *scheduler.Placement, err error, reserved bool) {
	l := h.decisions
	if l == nil {
		return
	}
	if !l.Wanted(r.Decision, err != nil) {
		if reserved {
			l.Cancel()
		}
		return
	}
	e := &decisions.Entry{Time: h.now(), RequestID: r.ID, Decision: r.Decision, Cached: r.Trace.Cached, Policy: g.logPolicy}
	if r.Principal != nil {
		e.Tenant = r.Principal.Tenant
	}
	if r.Asked.Principal != nil {
		asked := r.Asked
		e.Input, e.EvaluationFailed = &asked, r.Decision == nil
	}
	if err == nil {
		t := p.Target()
		e.Endpoint, e.Pool, e.Kind = "http://"+t.Addr, t.Pool, p.Kind().String()
	} else if d, ok := errors.AsType[*scheduler.DeniedError](err); ok {
		e.Status, e.Code = d.Status, d.Code.String()
	} else {
		e.Status, e.Code = http.StatusServiceUnavailable, llmapi.CodeInternal.String()
	}
	if reserved {
		l.Commit(e)
		return
	}
	l.Record(e)
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
	e.Emit(metric.DecisionLogRefused, float64(h.auditRefused.Load()))
}
