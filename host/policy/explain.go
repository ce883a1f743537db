package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
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
