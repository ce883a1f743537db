package decisions

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/telemetry/placements"
)

// Entry is one decision. It is rendered while the request continues, so the values
// that it refers to must not change.
type Entry struct {
	Time      time.Time
	RequestID string
	Input     *policy.Input    // of the policy; nil = it was not evaluated
	Decision  *policy.Decision // of the policy; nil = none
	Cached    bool             // the decision was cached
	Policy    Policy           // that decided; nil = none is loaded

	Tenant           string
	Endpoint, Pool   string // where the request went; "" = it was refused
	Kind             string // of placement
	Status           int    // of the refusal, 0 = it went on
	Code             string // of the refusal
	EvaluationFailed bool   // policy gave no decision

	// ID is the decision's id, "" = a random one. An Entry with an Outcome is the line
	// about the end of a request, and has only ID, Time, RequestID and Tenant besides.
	ID        string
	Placement *placements.Placement // nil = the request is not in the sample
	Outcome   *placements.Outcome
}

// Policy is what a decision log needs of the policy that decided.
type Policy interface {
	// Document returns the input with the paths that the policy refers to.
	Document(in *policy.Input) (map[string]any, error)
	// Mask returns the rules for values of an event that must not be logged, as
	// data.system.log.mask defines them. Without a mask there are no rules.
	Mask(event map[string]any) (rules []any, err error)
}

// path is the path of the decision in the policy, as OPA writes it.
const path = "kvasir/decision"

// event renders e as in OPA's decision log, with further fields of our own.
func (l *Log) event(e *Entry) map[string]any {
	id := e.ID
	if id == "" {
		id = NewID()
	}
	if e.Outcome != nil {
		return map[string]any{"decision_id": id, "timestamp": e.Time.UTC().Format(time.RFC3339Nano),
			"path": placements.OutcomePath, "labels": l.cfg.Labels, "request_id": e.RequestID, "tenant": e.Tenant,
			"outcome": e.Outcome}
	}
	m := map[string]any{
		"decision_id": id, "timestamp": e.Time.UTC().Format(time.RFC3339Nano), "path": path, "labels": l.cfg.Labels,
		"request_id": e.RequestID, "tenant": e.Tenant, "cached": e.Cached,
	}
	if e.Input != nil {
		m["input"] = inputOf(e)
	}
	if d := e.Decision; d != nil {
		m["result"], m["rule_ids"] = map[string]any(d.Fields()), append([]string{}, d.Rules...)
		m["bundles"] = map[string]any{"kvasir": map[string]any{"revision": d.Revision}}
		if d.Namespace != "" {
			m["namespace"] = d.Namespace
		}
	}
	if e.EvaluationFailed {
		m["error"] = map[string]any{"code": "policy_error", "message": "the policy gave no decision"}
	}
	if e.Status != 0 {
		m["refused"] = map[string]any{"status": e.Status, "code": e.Code}
	} else {
		m["endpoint"], m["pool"], m["kind"] = e.Endpoint, e.Pool, e.Kind
	}
	if e.Placement != nil {
		m["placement"] = e.Placement
	}
	l.mask(e, m)
	return m
}

// inputOf returns the input document of the policy. Without a policy it holds the
// tenant and the model, which are all that the built-in rules read.
func inputOf(e *Entry) map[string]any {
	if e.Policy != nil {
		if doc, err := e.Policy.Document(e.Input); err == nil {
			return doc
		}
	}
	return map[string]any{"tenant": map[string]any{"id": e.Tenant}, "request": map[string]any{"model": e.Input.Model}}
}

// NewID returns the id of a decision: a random UUID (version 4).
func NewID() string {
	var b [16]byte
	for i := 0; i < len(b); i += 8 {
		n := rand.Uint64()
		for k := range 8 {
			b[i+k] = byte(n >> (8 * k))
		}
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return fmt.Sprintf("%s-%s-%s-%s-%s", s[:8], s[8:12], s[12:16], s[16:20], s[20:])
}
