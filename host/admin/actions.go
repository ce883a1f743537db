package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/kvasir-router/kvasir/host/internal/secret"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

// Action is what the audit log calls something that an operator does or is
// refused: the verb of a line.
type Action string

// Actions of the API. Most have the name of the scope that they need.
const (
	ActionReload           Action = ScopeConfigReload
	ActionExplainAny       Action = ScopeExplainAny
	ActionProfile          Action = ScopeDebug
	ActionPluginPush       Action = ScopePluginPush
	ActionPluginActivate   Action = ScopePluginActivate
	ActionPluginRollback   Action = "plugin:rollback"
	ActionPluginDeactivate Action = "plugin:deactivate"
	ActionPluginUnshadow   Action = "plugin:unshadow"
	ActionKeyIssue         Action = ScopeKeyIssue
	ActionKeyRotate        Action = "key:rotate"
	ActionKeyRevoke        Action = ScopeKeyRevoke
	ActionPolicyActivate   Action = ScopePolicyActivate
	ActionCordon           Action = "endpoint:cordon"
	ActionDrain            Action = "endpoint:drain"
	ActionUncordon         Action = "endpoint:uncordon"
	ActionNotice           Action = ScopeAutoscaleWrite
	ActionLocality         Action = "endpoint:locality"
)

// auditedAction is something that a request does, as the audit log has it.
type auditedAction struct {
	action Action
	object string
	detail map[string]string // may grow until it is done; never a secret
}

// recorded is a response with details for the audit log: what is in force after a
// change.
type recorded interface {
	// auditDetail returns pairs of names and values; empty values are left out.
	auditDetail() []string
}

func (r *ReloadResult) auditDetail() []string {
	return []string{"config_sha256", r.ConfigSHA256, "revision", number(r.Revision)}
}

func (c *PluginChange) auditDetail() []string {
	return []string{"digest", c.Digest, "signer", c.Signer, "revision", number(c.Revision)}
}

func (p *PolicyStatus) auditDetail() []string {
	return []string{"policy_revision", p.Revision, "revision", number(p.RulesRevision)}
}

func (k IssuedKey) auditDetail() []string { return []string{"key", k.ID} }

// number returns n in decimal, "" for 0.
func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// add adds the details of a response.
func (a *auditedAction) add(response any) {
	r, ok := response.(recorded)
	if !ok {
		return
	}
	pairs := r.auditDetail()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			a.detail[pairs[i]] = pairs[i+1]
		}
	}
}

// audited does an action between two lines of the audit log. If the first line
// cannot be written, the action is not done.
func audited[R any](c *call, a auditedAction, do func(context.Context) (R, error)) (out R, err error) {
	if a.detail == nil {
		a.detail = map[string]string{}
	}
	a.detail["remote"] = c.r.RemoteAddr
	if err := c.append(&a, audit.Begun); err != nil {
		c.cfg.Log.Error("audit log", "err", err)
		return out, &apiError{http.StatusServiceUnavailable, "audit_unavailable",
			"Nothing was done: the audit log cannot be written: " + err.Error()}
	}
	out, err = do(c.context())
	result := audit.OK
	if err != nil {
		result, a.detail["why"] = audit.Failed, err.Error()
	} else {
		a.add(out)
	}
	if e := c.append(&a, result); e != nil {
		c.cfg.Log.Error("audit log: the result of an action is not recorded",
			"verb", a.action, "object", a.object, "result", result,
			"err", e)
		if err == nil {
			err = fmt.Errorf("the change was made, but the audit log does not record the result: %w", e)
		}
	}
	return out, err
}

// recordPage records the read of a confidential page: a memory profile contains
// prompts.
func (c *call) recordPage(action Action) error {
	a := auditedAction{action, c.r.URL.Path, map[string]string{"remote": c.r.RemoteAddr}}
	if err := c.append(&a, audit.OK); err != nil {
		c.cfg.Log.Error("audit log", "err", err)
		return &apiError{http.StatusServiceUnavailable, "audit_unavailable", "The audit log cannot be written: " +
			err.Error()}
	}
	return nil
}

// append writes one line of an action to the audit log and to the log.
func (c *call) append(a *auditedAction, result string) error {
	e := c.clean(audit.Event{Actor: c.principal.Name(), Verb: string(a.action), Object: a.object, Result: result,
		Detail: a.detail})
	c.cfg.Log.Info("admin", "actor", e.Actor, "verb", e.Verb, "object", e.Object, "result", result, "remote",
		c.r.RemoteAddr)
	if c.cfg.Audit == nil {
		return nil
	}
	return c.cfg.Audit.Append(e)
}

// record appends something that was not done to the audit log, unless the budget of
// this minute is used up.
func (s *Server) record(r *http.Request, b *budget, e audit.Event) {
	if s.cfg.Audit == nil {
		return
	}
	ok, dropped := b.take(s.now())
	if !ok {
		return
	}
	if dropped > 0 {
		e.Detail["not_recorded_before"] = fmt.Sprint(dropped)
	}
	e.Detail["remote"] = r.RemoteAddr
	if err := s.cfg.Audit.Append(s.clean(e)); err != nil {
		s.cfg.Log.Error("audit log", "err", err)
	}
}

// clean returns e without credentials: those that package secret recognises, and
// the admin token, whose form is the operator's choice.
func (s *Server) clean(e audit.Event) audit.Event {
	e.Verb, e.Object = s.redact(e.Verb), s.redact(e.Object)
	detail := make(map[string]string, len(e.Detail))
	for k, v := range e.Detail {
		detail[s.redact(k)] = s.redact(v)
	}
	e.Detail = detail
	return e
}

func (s *Server) redact(text string) string {
	return secret.Redact(strings.ReplaceAll(text, s.access().Token(), secret.Mark))
}
