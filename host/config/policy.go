package config

import "fmt"

// Policy is the Rego that decides who may do what. Without a directory every
// tenant may use every model, in a cache namespace of its own.
type Policy struct {
	Dir              string      `yaml:"dir" reload:"live" doc:"holds *.rego, schemas, capabilities.json; watched: an edit is in force within a second, a faulty one is refused with file, line and mend"`
	DataDir          string      `yaml:"data_dir" reload:"live" doc:"JSON files of tenants, classes and trust groups, a folder for each key; watched; default <dir>/data"`
	OnError          string      `yaml:"on_error" reload:"live" doc:"deny or allow a request for which the policy gives no decision; default deny, with status 503; allow keeps the tenant's own cache namespace and the constraints of fallback"`
	Fallback         Fallback    `yaml:"fallback" reload:"live" doc:"bounds of what on_error: allow lets through"`
	MaxStale         Duration    `yaml:"max_stale" reload:"live" doc:"deny everything when the policy in force could not be replaced for so long; default 0: keep the last good one"`
	RequiredLabels   *[]string   `yaml:"required_labels" reload:"live" doc:"labels that the constraints of every allowed decision must name; default [pool]: a rule over a field that is missing vanishes, and its constraint with it"`
	AllowPublicScope bool        `yaml:"allow_public_scope" reload:"live" doc:"let the policy give the cache scope public, shared by all tenants; default false"`
	AdmitEndpoints   bool        `yaml:"admit_endpoints" reload:"live" doc:"ask data.kvasir.backend.allow about each endpoint that discovery or a driver tells of, and leave out what is refused; default false: the allow-lists of the configuration decide"`
	Gates            PolicyGates `yaml:"gates" reload:"live" doc:"greatest shares of the live decisions that a reload may change; beyond, it is refused unless forced"`
}

// Fallback bounds what is allowed without a decision.
type Fallback struct {
	Pools []string `yaml:"pools" reload:"live" doc:"endpoints of these pools only; needed for on_error: allow"`
}

// PolicyGates are shares from 0 to 1; absent = 1, every change passes.
type PolicyGates struct {
	AllowToDeny *float64 `yaml:"allow_to_deny" reload:"live" doc:"of decisions that would be denied; default 1"`
	DenyToAllow *float64 `yaml:"deny_to_allow" reload:"live" doc:"of decisions that would be allowed; default 1"`
	Widened     *float64 `yaml:"widened" reload:"live" doc:"of decisions whose cache would be shared by more; default 1"`
	Errors      *float64 `yaml:"errors" reload:"live" doc:"of inputs for which there would be no decision; default 1"`
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
		if p.DataDir != "" || p.OnError != "" || p.MaxStale != 0 || p.RequiredLabels != nil || p.AllowPublicScope || p.AdmitEndpoints || len(p.Fallback.Pools) > 0 || p.Gates != (PolicyGates{}) {
			k.add("policy.dir", "missing: name the directory that holds the policy")
		}
		return
	}
	k.dir("policy.dir", p.Dir, "the directory that holds the policy")
	k.dir("policy.data_dir", p.DataDir, "the directory that holds the policy's data")
	k.oneOf("policy.on_error", p.OnError, "deny", "allow")
	if p.OnError == "allow" && len(p.Fallback.Pools) == 0 {
		k.add("policy.fallback.pools", "missing: say which pools take requests without a decision")
	}
	for i, name := range p.Fallback.Pools {
		if !pools[name] {
			k.add(fmt.Sprintf("policy.fallback.pools[%d]", i), "there is no pool %q", name)
		}
	}
	for i, l := range *p.RequiredLabels {
		if l == "" {
			k.add(fmt.Sprintf("policy.required_labels[%d]", i), "a label has a name")
		}
	}
	for name, g := range map[string]*float64{"allow_to_deny": p.Gates.AllowToDeny, "deny_to_allow": p.Gates.DenyToAllow, "widened": p.Gates.Widened, "errors": p.Gates.Errors} {
		if *g < 0 || *g > 1 {
			k.add("policy.gates."+name, "want a share from 0 to 1, got %v", *g)
		}
	}
}
