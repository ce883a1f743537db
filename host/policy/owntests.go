package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/tester"
)

// TestResult is the result of one of the policy's own tests.
type TestResult struct {
	Name    string  `json:"name"` // package and rule
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Passed  bool    `json:"passed"`
	Skipped bool    `json:"skipped,omitempty"`
	Fault   string  `json:"fault,omitempty"` // why it failed
	Millis  float64 `json:"ms"`
}

// testBudget bounds one test.
const testBudget = 2 * time.Second

// measuredFactor is how many times longer a run with coverage may take: each step is
// reported to the coverage tool, and no router waits for the run.
const measuredFactor = 10

// runTests runs the policy's own tests with the engine and the data that decisions
// will use. Tests are compiled together with the rules, in a separate program.
func (s *Snapshot) runTests(f *faults) {
	results := s.test(nil, f)
	for _, r := range results {
		switch {
		case r.Skipped:
		case r.Passed:
			s.tests++
		default:
			f.add(r.File, r.Line, 1, fmt.Sprintf("test %s: %s", r.Name, r.Fault),
				"fix the rule, or the test if its expectation has changed")
		}
	}
}

// Test runs the policy's own tests and returns their results by name, and the share
// of the rules' lines that they cover, in percent. Load ran them too. The error
// reports that the tests did not end in time; the coverage is then unknown.
func (s *Snapshot) Test() (results []TestResult, coverage float64, err error) {
	var f faults
	c := cover.New()
	results = s.test(c, &f)
	rules := maps.Clone(s.prog.modules)
	maps.DeleteFunc(rules, func(name string, _ *ast.Module) bool { return strings.HasSuffix(name, testSuffix) })
	if err := f.err(); err != nil {
		return results, 0, err
	}
	return results, c.Report(rules).Coverage, nil
}

// test runs the tests and measures their coverage with c if it is not nil.
func (s *Snapshot) test(c *cover.Cover, f *faults) []TestResult {
	isTest := func(name string) bool { return strings.HasSuffix(name, testSuffix) }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(s.prog.modules)), isTest) {
		return nil
	}
	whole, each := s.cfg.TestTime, testBudget
	if c != nil {
		whole, each = whole*measuredFactor, each*measuredFactor
	}
	ctx, cancel := context.WithTimeout(context.Background(), whole)
	defer cancel()
	run := tester.NewRunner().SetCompiler(s.prog.set.compiler()).SetStore(s.data.store).SetModules(s.prog.modules).
		SetTimeout(each).SetParallel(1)
	if c != nil {
		run = run.SetCoverageQueryTracer(c)
	}
	ch, err := run.RunTests(ctx, s.data.txn)
	if err != nil {
		f.rego(err)
		return nil
	}
	var out []TestResult
	for r := range ch {
		out = append(out, testResult(r))
	}
	if ctx.Err() != nil {
		f.add("", 0, 0, fmt.Sprintf("the tests took longer than %v", whole), "shorten them: they run at every load")
	}
	slices.SortFunc(out, func(a, b TestResult) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func testResult(r *tester.Result) TestResult {
	out := TestResult{Name: strings.TrimPrefix(r.Package, "data.") + "." + r.Name, Passed: r.Pass(), Skipped: r.Skip,
		Millis: float64(r.Duration) / float64(time.Millisecond)}
	if r.Location != nil {
		out.File, out.Line = r.Location.File, r.Location.Row
	}
	switch {
	case r.Error != nil:
		out.Fault = "error: " + r.Error.Error()
	case r.Fail:
		out.Fault = "failed"
	}
	for names, sub := range r.SubResults.Iter {
		if sub.Fail {
			out.Fault += ": case " + strings.Join(names, "/")
		}
	}
	return out
}
