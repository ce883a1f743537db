package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/kvasir-router/kvasir/host/identity"
)

// ErrNoRule reports that a policy has no rule for a question: the router decides
// it without the policy.
var ErrNoRule = errors.New("policy: no such rule")

// AdminQuestion asks whether a principal may make a call of the admin API for an
// object.
type AdminQuestion struct {
	Principal *identity.Principal
	Verb      string // area:action
	Name      string // of the plugin, key, endpoint or revision
	Tenant    string // of the object; "" = none. A key is checked twice: by its name and by its tenant
	Author    string // name of the principal that pushed the activated version; "" = unknown
	Undo      bool   // the activated version was in force before
}

// BackendQuestion asks whether an endpoint may join a pool.
type BackendQuestion struct {
	URL, Pool, Dialect string
	Labels             map[string]string // without the label pool
}

// Answer is the answer to an AdminQuestion or a BackendQuestion.
type Answer struct {
	Allow    bool
	Refusals []string // reasons of a refusal, sorted; for operators
}

// Admin evaluates data.kvasir.admin.allow. The error is ErrNoRule, or the reason why
// there is no answer, which counts as a refusal. Answers are not cached, since calls
// of the admin API are rare.
func (s *Snapshot) Admin(q *AdminQuestion) (Answer, error) {
	p := q.Principal
	object := map[string]any{}
	for k, v := range map[string]string{"name": q.Name, "tenant": q.Tenant, "author": q.Author} {
		if v != "" {
			object[k] = v
		}
	}
	if q.Undo {
		object["undo"] = true
	}
	return s.answer("admin", map[string]any{
		"version": "1", "verb": q.Verb, "object": object,
		"principal": map[string]any{
			"id": p.Name(), "tenant": p.Tenant, "groups": stringsOf(p.Groups), "scopes": stringsOf(p.Scopes),
			"auth": map[string]any{"method": p.Method, "issuer": p.Issuer},
		},
	})
}

// Backend evaluates data.kvasir.backend.allow. Errors are those of Admin.
func (s *Snapshot) Backend(q *BackendQuestion) (Answer, error) {
	labels := map[string]any{}
	for k, v := range q.Labels {
		labels[k] = v
	}
	return s.answer("backend", map[string]any{
		"version": "1", "backend": map[string]any{"url": q.URL, "pool": q.Pool, "dialect": q.Dialect, "labels": labels},
	})
}

// stringsOf returns a list that is not null in JSON.
func stringsOf(vs []string) []any {
	out := []any{}
	for _, v := range vs {
		out = append(out, v)
	}
	return out
}

// answer evaluates data.kvasir.NAME for allow and refusals. Undefined is false.
func (s *Snapshot) answer(name string, input map[string]any) (a Answer, err error) {
	ref := ast.MustParseRef("data.kvasir." + name + ".allow")
	if len(s.prog.compiler.GetRulesExact(ref)) == 0 {
		return a, fmt.Errorf("%w: %s", ErrNoRule, ref)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Budget)
	defer cancel()
	rs, err := rego.New(rego.Query("data.kvasir."+name), rego.Compiler(s.prog.compiler), rego.Store(s.data.store),
		rego.Transaction(s.data.txn), rego.Input(input)).Eval(ctx)
	if err != nil {
		return a, fmt.Errorf("policy: %s: %w", ref, err)
	}
	if len(rs) != 1 || len(rs[0].Expressions) != 1 {
		return a, fmt.Errorf("policy: %s is undefined", ref)
	}
	doc, _ := rs[0].Expressions[0].Value.(map[string]any)
	a.Allow = doc["allow"] == true
	refusals, _ := doc["refusals"].([]any)
	for _, r := range refusals {
		if s, ok := r.(string); ok {
			a.Refusals = append(a.Refusals, s)
		}
	}
	slices.Sort(a.Refusals)
	return a, nil
}
