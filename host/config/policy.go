package config

import (
	"fmt"
	"reflect"
)

// Policy configures the Rego rules that decide what tenants may do. Without a directory
// every tenant may use every model, in its own cache namespace.
type Policy struct {
	// directory with *.rego, schemas and capabilities.json; watched: an edit is in force
	// within a second, an invalid one is refused with every error, its file, line and
	// suggested fix
	Dir string `yaml:"dir" reload:"live"`
	// directory with JSON files of tenants, classes and trust groups, a folder for each
	// key; watched; default <dir>/data
	DataDir string `yaml:"data_dir" reload:"live"`
	// deny or allow: what to do with a request for which the policy gives no decision;
	// default deny, with status 503; allow keeps the tenant in its own cache namespace
	// and within fallback
	OnError string `yaml:"on_error" reload:"live"`
	// limits of requests that on_error: allow allows
	Fallback Fallback `yaml:"fallback" reload:"live"`
	// deny every request once the policy in force could not be replaced for this long;
	// default 0: keep the last good policy
	MaxStale Duration `yaml:"max_stale" reload:"live"`
	// labels that the constraints of every allowed decision must name; default [pool]: a
	// Rego rule over a missing field is undefined, and its constraint would be missing
	// silently
	RequiredLabels *[]string `yaml:"required_labels" reload:"live"`
	// true: the policy may give the cache scope public, which all tenants share; default
	// false
	AllowPublicScope bool `yaml:"allow_public_scope" reload:"live"`
	// true: discovered endpoints and those of drivers join only if
	// data.kvasir.backend.allow allows it; default false: only the allow lists of the
	// configuration apply
	AdmitEndpoints bool `yaml:"admit_endpoints" reload:"live"`
	// maximum shares of live decisions that a reload of the policy may change; it is
	// refused beyond them unless forced
	Gates PolicyGates `yaml:"gates" reload:"live"`
}

// Fallback limits requests that are allowed without a decision.
type Fallback struct {
	// pools whose endpoints may be used; required for on_error: allow
	Pools []string `yaml:"pools" reload:"live"`
}

// PolicyGates are shares from 0 to 1; absent = 1: any change is allowed.
type PolicyGates struct {
	// share of decisions that become denied; default 1
	AllowToDeny *float64 `yaml:"allow_to_deny" reload:"live"`
	// share of decisions that become allowed; default 1
	DenyToAllow *float64 `yaml:"deny_to_allow" reload:"live"`
	// share of decisions whose cache becomes shared by more tenants; default 1
	Widened *float64 `yaml:"widened" reload:"live"`
	// share of inputs for which the policy in force gives a decision and the changed one
	// gives none; default 1
	Errors *float64 `yaml:"errors" reload:"live"`
}

func (p *Policy) defaults() {
	if p.Dir == "" {
		return
	}
	or(&p.OnError, "deny")
	if p.RequiredLabels == nil {
		p.RequiredLabels = &[]string{"pool"}
	}
	for _, g := range []**float64{&p.Gates.AllowToDeny, &p.Gates.DenyToAllow, &p.Gates.Widened, &p.Gates.Errors} {
		if *g == nil {
			one := 1.0
			*g = &one
		}
	}
}

func (k *checker) policy(p *Policy, pools map[string]bool) {
	if p.Dir == "" {
		if !reflect.DeepEqual(*p, Policy{}) {
			k.add("policy.dir", "missing: name the directory of the policy")
		}
		return
	}
	k.dir("policy.dir", p.Dir, "the directory of the policy")
	k.dir("policy.data_dir", p.DataDir, "the directory of the policy's data")
	k.oneOf("policy.on_error", p.OnError, "deny", "allow")
	if p.OnError == "allow" && len(p.Fallback.Pools) == 0 {
		k.add("policy.fallback.pools", "missing: on_error: allow requires it")
	}
	for i, name := range p.Fallback.Pools {
		if !pools[name] {
			k.add(fmt.Sprintf("policy.fallback.pools[%d]", i), "unknown pool %q", name)
		}
	}
	for i, l := range *p.RequiredLabels {
		if l == "" {
			k.add(fmt.Sprintf("policy.required_labels[%d]", i), "empty label name")
		}
	}
	for name, g := range map[string]*float64{
		"allow_to_deny": p.Gates.AllowToDeny, "deny_to_allow": p.Gates.DenyToAllow,
		"widened": p.Gates.Widened, "errors": p.Gates.Errors,
	} {
		if *g < 0 || *g > 1 {
			k.add("policy.gates."+name, "want a share from 0 to 1, got %v", *g)
		}
	}
}
