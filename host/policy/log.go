package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

// Trace is what an Engine reports beside a decision, in Input.Trace. An Input with a
// Trace must not be shared.
type Trace struct {
	Cached bool // the decision was cached
}

// Document returns the input document as JSON values, with only the paths that the
// policy refers to: the part that a log may contain.
func (s *Snapshot) Document(in *Input) (map[string]any, error) {
	v, err := ast.JSON(s.prog.inputs.document(in))
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("policy: input document: %v", err)
	}
	return m, nil
}

// maskPath is the rule that lists what a decision log must not contain. Its name and
// shape are those of OPA.
const maskPath = "data.system.log.mask"

// LogMask evaluates which values are removed from the decision log. It is safe for
// concurrent use.
type LogMask struct {
	query  rego.PreparedEvalQuery
	s      *Snapshot
	budget time.Duration
}

// maskBudget bounds one evaluation, which happens off the request's path.
const maskBudget = 50 * time.Millisecond

// LogMask returns the policy's mask; the error is ErrNoRule if it has none.
func (s *Snapshot) LogMask() (*LogMask, error) {
	ref := ast.MustParseRef(maskPath)
	if len(s.prog.compiler.GetRulesExact(ref)) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoRule, ref)
	}
	q, err := rego.New(rego.Query(maskPath), rego.Compiler(s.prog.compiler), rego.Store(s.data.store),
		rego.Transaction(s.data.txn)).PrepareForEval(context.Background())
	if err != nil {
		return nil, fmt.Errorf("policy: %s: %w", maskPath, err)
	}
	return &LogMask{q, s, maskBudget}, nil
}

// Rules evaluates the mask for one event: paths such as "/input/tenant/user",
// or objects {op, path, value}.
func (m *LogMask) Rules(event map[string]any) (rules []any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("policy: %s: %v", maskPath, p)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), m.budget)
	defer cancel()
	rs, err := m.query.Eval(ctx, rego.EvalInput(event), rego.EvalTransaction(m.s.data.txn))
	switch {
	case err != nil:
		return nil, fmt.Errorf("policy: %s: %w", maskPath, err)
	case len(rs) != 1 || len(rs[0].Expressions) != 1:
		return nil, errors.New("policy: " + maskPath + " is undefined")
	}
	rules, ok := rs[0].Expressions[0].Value.([]any)
	if !ok {
		return nil, errors.New("policy: " + maskPath + " is not a set")
	}
	return rules, nil
}
