package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/kvasir-router/kvasir/host/identity"
)

// Explanation describes how a policy made a decision.
type Explanation struct {
	Input      json.RawMessage `json:"input"`      // the whole document
	DependsOn  []string        `json:"depends_on"` // the paths of it that the policy refers to
	Result     json.RawMessage `json:"result"`     // data.kvasir.decision as the policy gives it; null = undefined
	Decision   *View           `json:"decision"`   // as the router enforces it; null with Error
	Error      string          `json:"error,omitempty"`
	Rules      []RuleHeld      `json:"rules"` // that held, in the order of files and lines
	EvalMicros float64         `json:"eval_us"`
	Revision   string          `json:"revision"`
}

// RuleHeld is a rule that produced a value.
type RuleHeld struct {
	ID   string `json:"id,omitempty"` // of its annotations
	Path string `json:"path"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// Explain decides about in and reports which rules held. It evaluates the whole input
// document, without the cache. Tests check that the decision equals that of Decide.
func (s *Snapshot) Explain(in *Input) *Explanation {
	x := &Explanation{Input: inputJSON(in), DependsOn: s.Inputs(), Result: json.RawMessage("null"), Rules: []RuleHeld{},
		Revision: s.revision}
	d, err := s.Uncached(in)
	if err != nil {
		x.Error = err.Error()
	} else {
		v := d.View()
		x.Decision = &v
	}
	var c Counters
	held := rulesHeld{set: s.prog.compiler.GetAnnotationSet(), seen: map[*ast.Rule]bool{}}
	v, err := s.eval((*inputSet)(nil).document(in), &c, rego.EvalQueryTracer(&held))
	if err == nil {
		if j, err := ast.JSON(v); err == nil {
			x.Result = mustJSON(j)
		}
	}
	x.EvalMicros = float64(c.evalNanos.Load()) / 1e3
	x.Rules = append(x.Rules, held.rules...)
	slices.SortStableFunc(x.Rules, func(a, b RuleHeld) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return x
}

// rulesHeld is a tracer that records the rules that produced a value.
type rulesHeld struct {
	set   *ast.AnnotationSet
	seen  map[*ast.Rule]bool
	rules []RuleHeld
}

// Enabled implements topdown.QueryTracer.
func (*rulesHeld) Enabled() bool { return true }

// Config implements topdown.QueryTracer.
func (*rulesHeld) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// TraceEvent implements topdown.QueryTracer.
func (h *rulesHeld) TraceEvent(e topdown.Event) {
	r, ok := e.Node.(*ast.Rule)
	if !ok || e.Op != topdown.ExitOp || h.seen[r] {
		return
	}
	h.seen[r] = true
	out := RuleHeld{Path: strings.TrimPrefix(r.Ref().String(), "data.")}
	if l := r.Loc(); l != nil {
		out.File, out.Line = l.File, l.Row
	}
	if labels, _ := h.set.MergedLabels(r); labels != nil {
		out.ID, _ = labels["id"].(string)
	}
	h.rules = append(h.rules, out)
}

// inputDocument is the JSON form of an Input.
type inputDocument struct {
	Version string `json:"version"`
	Tenant  struct {
		ID     string   `json:"id"`
		User   string   `json:"user"`
		Groups []string `json:"groups"`
		Scopes []string `json:"scopes"`
		Auth   struct {
			Method string `json:"method"`
			Issuer string `json:"issuer"`
		} `json:"auth"`
	} `json:"tenant"`
	Request struct {
		Operation string            `json:"operation"`
		Model     string            `json:"model"`
		Adapter   string            `json:"adapter"`
		Stream    bool              `json:"stream"`
		Priority  string            `json:"priority"`
		SizeClass string            `json:"size_class"`
		Labels    map[string]string `json:"labels"`
	} `json:"request"`
	Router struct {
		Region        string `json:"region"`
		HourUTC       int    `json:"hour_utc"`
		CapacityState string `json:"capacity_state"`
	} `json:"router"`
}

// ParseInput reads an input document. Missing fields are empty; unknown fields are
// errors.
func ParseInput(text []byte) (*Input, error) {
	var d inputDocument
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("policy: input: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("policy: input: unexpected text after the document")
	}
	if d.Version != "" && d.Version != "1" {
		return nil, fmt.Errorf("policy: input: version %.40q, want \"1\"", d.Version)
	}
	if d.Router.HourUTC < 0 || d.Router.HourUTC > 23 {
		return nil, fmt.Errorf("policy: input: router.hour_utc %d is not an hour", d.Router.HourUTC)
	}
	in := &Input{
		Principal: &identity.Principal{Tenant: d.Tenant.ID, User: d.Tenant.User, Groups: d.Tenant.Groups,
			Scopes: d.Tenant.Scopes, Method: d.Tenant.Auth.Method, Issuer: d.Tenant.Auth.Issuer},
		Operation: d.Request.Operation, Model: d.Request.Model, Adapter: d.Request.Adapter, Stream: d.Request.Stream,
		Priority: d.Request.Priority, SizeClass: d.Request.SizeClass,
		Region: d.Router.Region, HourUTC: d.Router.HourUTC, CapacityState: d.Router.CapacityState,
	}
	for name, value := range d.Request.Labels {
		in.Labels = append(in.Labels, Label{Name: name, Value: value})
	}
	slices.SortFunc(in.Labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return in, nil
}
