package scheduler

import "github.com/kvasir-router/kvasir/host/policy"

// PolicySeen is what of policy's decision acted on a request. The salt is not
// part of it.
type PolicySeen struct {
	Scope       string              `json:"scope"`
	Model       string              `json:"model,omitempty"` // rewritten to
	Constraints []policy.Constraint `json:"constraints"`
	Prefer      []policy.Preference `json:"prefer"`
	Affinity    AffinitySeen        `json:"affinity"`
	Profile     string              `json:"profile,omitempty"`
	Priority    int                 `json:"priority"`
	RateClass   string              `json:"rate_class"`
	Limits      LimitsSeen          `json:"limits"`
}

// AffinitySeen is a decision's affinity with its defaults filled in.
type AffinitySeen struct {
	Weight   float64 `json:"weight"`
	MaxShare float64 `json:"max_share"`
	Sticky   bool    `json:"sticky"`
}

// LimitsSeen is a decision's limits; 0 = none.
type LimitsSeen struct {
	MaxPromptTokens   int `json:"max_prompt_tokens"`
	MaxOutputTokens   int `json:"max_output_tokens"`
	MaxConcurrency    int `json:"max_concurrency"`
	TokensPerMinute   int `json:"tokens_per_minute"`
	RequestsPerMinute int `json:"requests_per_minute"`
}

// policySeen renders a decision, nil if there was none.
func policySeen(d *policy.Decision) *PolicySeen {
	if d == nil {
		return nil
	}
	p := &PolicySeen{Scope: d.Scope, Model: d.Model, Constraints: d.Constraints, Prefer: d.Prefer, Profile: d.Profile, Priority: d.Priority, RateClass: d.RateClass,
		Affinity: AffinitySeen{d.Affinity.Weight, d.Affinity.MaxShare, d.Affinity.Sticky},
		Limits:   LimitsSeen{d.MaxPromptTokens, d.MaxOutputTokens, d.MaxConcurrency, d.TokensPerMinute, d.RequestsPerMinute}}
	if p.Affinity.Weight == 0 {
		p.Affinity.Weight = 1
	}
	if p.Affinity.MaxShare == 0 {
		p.Affinity.MaxShare = 1
	}
	if p.Constraints == nil {
		p.Constraints = []policy.Constraint{}
	}
	if p.Prefer == nil {
		p.Prefer = []policy.Preference{}
	}
	return p
}
