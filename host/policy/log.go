package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

// Trace is what an Engine tells beside a decision, where Input.Trace asks for
// it. Whoever asks with one does so with an Input of its own.
type Trace struct {
	Cached bool // the decision was made before, for the same inputs
}

// Document returns the input document as JSON values, with the paths only that
// the policy refers to: what a log may hold.
func (s *Snapshot) Document(in *Input) (map[string]any, error) {
	v, err := ast.JSON(s.prog.inputs.document(in))
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("policy: input document: %v", err)
	}
	return m, nil
}

// maskPath is the rule that names what a decision log must not hold. It has the
// name and the shape of OPA's own.
const maskPath = "data.system.log.mask"

// LogMask says what stays out of the decision log. It is safe for concurrent
// use.
type LogMask struct {
	query  rego.PreparedEvalQuery
	s      *Snapshot
	budget time.Duration
}

// maskBudget bounds one evaluation: it is done beside the requests.
const maskBudget = 50 * time.Millisecond

// LogMask returns the policy's mask; the error is ErrNoRule if it has none.
func (s *Snapshot) LogMask() (*LogMask, error) {
	ref := ast.MustParseRef(maskPath)
	if len(s.prog.compiler.GetRulesExact(ref)) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoRule, ref)
	}
	q, err := rego.New(rego.Query(maskPath), rego.Compiler(s.prog.compiler), rego.Store(s.data.store), rego.Transaction(s.data.txn)).PrepareForEval(context.Background())
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
		return nil, errors.New("policy: " + maskPath + " is no set")
	}
	return rules, nil
}
