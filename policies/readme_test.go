package policies_test

import (
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/policy"
)

// TestReadme loads the rule that the README shows, and checks its decisions.
func TestReadme(t *testing.T) {
	all := files(t)
	_, block, ok := strings.Cut(string(all["README.md"]), "    package site\n")
	if !ok {
		t.Fatal("README.md contains no rule")
	}
	var rule []string
	for _, l := range strings.Split("    package site\n"+block, "\n") {
		if l != "" && !strings.HasPrefix(l, "    ") {
			break
		}
		rule = append(rule, strings.TrimPrefix(l, "    "))
	}
	all["site/mine.rego"] = []byte(strings.Join(rule, "\n"))
	all["data/tenants/acme.json"] = []byte(strings.Replace(string(all["data/tenants/acme.json"]), `"audit"`,
		`"site": {"verified_isolation": true}, "audit"`, 1))
	s := mustLoad(t, all)
	for tenant, want := range map[string]int{"acme": 2, "globex": 1} {
		in := question(tenant)
		d, err := s.Decide(in)
		if err != nil || !d.Allow || len(d.Constraints) != want {
			t.Errorf("%s: %+v, %v; want %d constraints", tenant, d, err, want)
		}
	}
}

// TestShippedData: requests of the shipped tenants are allowed.
func TestShippedData(t *testing.T) {
	s := mustLoad(t, files(t))
	for _, tenant := range []string{"acme", "globex"} {
		if d, err := s.Decide(question(tenant)); err != nil || !d.Allow || d.Scope != "tenant" {
			t.Errorf("%s: %+v, %v", tenant, d, err)
		}
	}
	if d, err := s.Decide(question("initech")); err != nil || d.Allow || d.Reason != "tenant_unknown" {
		t.Errorf("a tenant without a record: %+v, %v", d, err)
	}
}

func question(tenant string) *policy.Input {
	return &policy.Input{Principal: &identity.Principal{Tenant: tenant, Method: "api_key"}, Operation: "chat.completions",
		Model: "demo", SizeClass: "s"}
}
