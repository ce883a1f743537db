package host

import (
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/statedir"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

func (h *Host) openAudit(c *config.Config) (err error) {
	h.audit, err = audit.Open(statedir.AuditPath(c.Telemetry.AuditLog.File, c.StateDir))
	return err
}

// note records an action of the router itself in the audit log. Unlike an operator's
// action, it is not undone if it cannot be recorded: the previous state is no safer.
func (h *Host) note(verb, object string, err error, detail ...string) {
	e := audit.Event{Actor: "system", Verb: verb, Object: object, Result: audit.OK, Detail: map[string]string{}}
	for i := 0; i+1 < len(detail); i += 2 {
		e.Detail[detail[i]] = detail[i+1]
	}
	if err != nil {
		e.Result, e.Detail["why"] = audit.Failed, err.Error()
	}
	if err := h.audit.Append(e); err != nil {
		h.log.Error("audit log", "err", err)
	}
}
