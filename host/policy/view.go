package policy

// View is a decision as people see it: in the words of the contract, without
// the salt.
type View struct {
	Allow       bool            `json:"allow"`
	Reason      string          `json:"reason"`
	Status      int             `json:"status,omitempty"`
	Model       string          `json:"model,omitempty"`
	Constraints []ViewCondition `json:"constraints,omitempty"`
	Prefer      []Preference    `json:"prefer,omitempty"`
	Scope       string          `json:"scope,omitempty"`
	Namespace   string          `json:"namespace_hash,omitempty"`
	Affinity    *ViewAffinity   `json:"affinity,omitempty"`
	Priority    int             `json:"priority"`
	RateClass   string          `json:"rate_class,omitempty"`
	Limits      map[string]int  `json:"limits,omitempty"`
	Profile     string          `json:"profile,omitempty"`
	Audit       string          `json:"audit,omitempty"`
	Rules       []string        `json:"rules"`
	Revision    string          `json:"revision"`
}

// ViewCondition is a Constraint in the words of the contract.
type ViewCondition struct {
	Label  string   `json:"label"`
	Op     string   `json:"op"`
	Values []string `json:"values"`
}

// ViewAffinity is an Affinity in the words of the contract.
type ViewAffinity struct {
	Weight   float64 `json:"weight"`
	MaxShare float64 `json:"max_share"`
	Sticky   bool    `json:"sticky"`
}

// View returns d for people.
func (d *Decision) View() View {
	v := View{Allow: d.Allow, Reason: d.Reason, Status: d.Status, Model: d.Model, Prefer: d.Prefer, Scope: d.Scope, Namespace: d.Namespace,
		Priority: d.Priority, RateClass: d.RateClass, Profile: d.Profile, Audit: d.Audit, Rules: d.Rules, Revision: d.Revision, Limits: map[string]int{}}
	for _, c := range d.Constraints {
		op := constraintIn
		if c.NotIn {
			op = constraintNotIn
		}
		v.Constraints = append(v.Constraints, ViewCondition{c.Label, op, c.Values})
	}
	if a := d.Affinity; a != (Affinity{}) {
		v.Affinity = &ViewAffinity{a.Weight, a.MaxShare, a.Sticky}
	}
	for name, n := range map[string]int{"max_prompt_tokens": d.MaxPromptTokens, "max_output_tokens": d.MaxOutputTokens, "max_concurrency": d.MaxConcurrency,
		"tokens_per_minute": d.TokensPerMinute, "requests_per_minute": d.RequestsPerMinute} {
		if n > 0 {
			v.Limits[name] = n
		}
	}
	return v
}
