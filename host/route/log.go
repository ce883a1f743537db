package route

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry/decisions"
)

// Log writes decisions to the decision log. A nil Log writes nothing. It is safe for
// concurrent use.
type Log struct {
	log     *decisions.Log
	require bool          // no request is served without its entry
	refused atomic.Uint64 // number of requests refused because the log could not be written
}

// NewLog returns a Log that writes to l. With require, a request is refused while
// its decision cannot be logged.
func NewLog(l *decisions.Log, require bool) *Log { return &Log{log: l, require: require} }

// Refused returns how many requests were refused because their decision could not
// be logged.
func (l *Log) Refused() uint64 {
	if l == nil {
		return 0
	}
	return l.refused.Load()
}

// errNoLog is the refusal of requests whose decision could not be logged.
var errNoLog = &llmapi.Error{Status: http.StatusServiceUnavailable, Code: llmapi.CodeAuditUnavailable,
	Message:    "The decision log cannot be written, and the configuration requires it for every request.",
	RetryAfter: time.Second}

// reserve reserves an entry of the log if every decision must be logged. The error is
// for the client.
func (l *Log) reserve() (reserved bool, err error) {
	if l == nil || !l.require {
		return false, nil
	}
	if !l.log.Reserve() {
		l.refused.Add(1)
		return false, errNoLog
	}
	return true, nil
}

// cancel releases a reserved entry.
func (l *Log) cancel(reserved bool) {
	if reserved {
		l.log.Cancel()
	}
}

// record logs the decision about a request: its placement, or err, the reason of its
// refusal. pol is the policy that decided. record returns the id of the decision if the
// outcome is to be logged too, else "".
func (l *Log) record(
	pol decisions.Policy, r *scheduler.Request, p *scheduler.Placement, err error, reserved bool, now time.Time,
) (id string) {
	if l == nil {
		return ""
	}
	placed := err == nil && l.log.WantsPlacement(r.Decision)
	if !placed && !l.log.Wanted(r.Decision, err != nil) {
		l.cancel(reserved)
		return ""
	}
	e := &decisions.Entry{
		Time: now, RequestID: r.ID, Tenant: tenantOf(r), Decision: r.Decision, Cached: r.Trace.Cached, Policy: pol,
	}
	if r.Asked.Principal != nil {
		asked := r.Asked
		e.Input, e.EvaluationFailed = &asked, r.Decision == nil
	}
	if err == nil {
		t := p.Target()
		scheme := "http://"
		if t.TLS != nil {
			scheme = "https://"
		}
		e.Endpoint, e.Pool, e.Kind = scheme+t.Addr, t.Pool, p.Kind().String()
		if placed {
			e.ID = decisions.NewID()
			e.Placement = l.placementOf(r, p)
		}
	} else if d, ok := errors.AsType[*scheduler.DeniedError](err); ok {
		e.Status, e.Code = d.Status, d.Code.String()
	} else {
		e.Status, e.Code = http.StatusServiceUnavailable, llmapi.CodeInternal.String()
	}
	if reserved {
		l.log.Commit(e)
	} else {
		l.log.Record(e)
	}
	return e.ID
}
