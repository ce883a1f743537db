package policy

//go:generate go test -count=1 -run Fields_generated . -args -update

import (
	"fmt"
	"strconv"
	"strings"
)

// decisionFields declares the document data.kvasir.decision, field by field, in
// the order of its documentation. To add a field, add a member to Decision and a
// row here, and enforce it where it acts; then run make generate.
var decisionFields = []field[verdict]{
	newField("allow", boolKind, func(v *verdict) *bool { return &v.Allow }).needed().inDenials().
		doc("`true` or `false`: whether the request is allowed", "an error: status 503"),
	newField("reason", reasonKind, func(v *verdict) *string { return &v.Reason }).inDenials().
		doc(fmt.Sprintf("a word for the client of a refused request: 1 to %d of `a-z`, `0-9`, `_`", maxReason), "`denied`"),
	newField("status", statusKind, func(v *verdict) *int { return &v.Status }).inDenials().
		doc("HTTP status of a refusal: "+orList(denyStatuses), strconv.Itoa(defaultDenyStatus)),
	newField("model", stringKind, func(v *verdict) *string { return &v.Model }).
		doc("the model to use", "the model of the request"),
	newField("constraints", array(object(constraintFields, nil)),
		func(v *verdict) *[]Constraint { return &v.Constraints }).as(constraintText).
		doc("`{label, op: in or not_in, values}`: endpoints must meet all of them. An empty list of values matches no "+
			"endpoint, and nothing relaxes a constraint",
			"where the configuration lists the label in `required_labels` (`pool`): refused, `"+reasonIncomplete+"`"),
	newField("prefer", array(object(preferenceFields, nil)),
		func(v *verdict) *[]Preference { return &v.Prefer }).as(preferenceText).
		doc("`{label, values, weight}`, weight 0 to 1: endpoints whose label has one of the values are worth more", "none"),
	newField("cache", object(cacheFields, checkCache), func(v *verdict) *verdict { return v }).
		doc("`{scope, group}`: who shares cached blocks: `tenant`, `user`, `group`, `public` (only with "+
			"`allow_public_scope`), `none` (nothing shared, nothing predicted)", "`tenant`"),
	newField("affinity", object(affinityFields, nil), func(v *verdict) *Affinity { return &v.Affinity }).
		doc(fmt.Sprintf("`{weight 0…%d, max_share (0…1], sticky}`: credit of a cached prefix, largest share of one "+
			"endpoint's work, sessions stay on their endpoint", maxAffinityWeight), "1, none, false"),
	newField("priority", classKind, func(v *verdict) *int { return &v.Priority }).
		doc("a class of `data.classes`; the log and explain show its number", "`"+defaultClass+"`"),
	newField("rate_class", stringKind, func(v *verdict) *string { return &v.RateClass }).
		doc("requests of one tenant and rate class share one budget", "`default`"),
	newField("limits", object(limitFields, nil), func(v *verdict) *verdict { return v }).
		doc("`{"+names(limitFields)+"}`; 0 is no limit", "no limits"),
	newField("profile", stringKind, func(v *verdict) *string { return &v.Profile }).
		doc("the scoring profile", "`default`"),
	newField("audit", oneOf(AuditNone, AuditSample, AuditFull), func(v *verdict) *string { return &v.Audit }).
		doc("which allowed requests the decision log holds: `none`, `sample`, `full`", "`sample`"),
}

var constraintFields = []field[Constraint]{
	newField("label", nameKind, func(c *Constraint) *string { return &c.Label }).needed(),
	newField("op", operatorKind, func(c *Constraint) *bool { return &c.NotIn }).needed(),
	newField("values", wordsKind, func(c *Constraint) *[]string { return &c.Values }).needed(),
}

var preferenceFields = []field[Preference]{
	newField("label", nameKind, func(p *Preference) *string { return &p.Label }).needed(),
	newField("values", wordsKind, func(p *Preference) *[]string { return &p.Values }).needed(),
	newField("weight", fractionKind, func(p *Preference) *float64 { return &p.Weight }).needed(),
}

var cacheFields = []field[verdict]{
	newField("scope", oneOf(ScopeTenant, ScopeUser, ScopeGroup, ScopePublic, ScopeNone),
		func(v *verdict) *string { return &v.Scope }).needed(),
	newField("group", nameKind, func(v *verdict) *string { return &v.group }),
}

func checkCache(d *decoder, path string, v *verdict) {
	switch {
	case v.Scope == ScopeGroup && v.group == "":
		d.fail(path, "has scope group without a group")
	case v.Scope != ScopeGroup && v.group != "":
		d.fail(path, "has a group with scope %s", v.Scope)
	}
}

var affinityFields = []field[Affinity]{
	newField("weight", weightKind, func(a *Affinity) *float64 { return &a.Weight }),
	newField("max_share", shareKind, func(a *Affinity) *float64 { return &a.MaxShare }),
	newField("sticky", boolKind, func(a *Affinity) *bool { return &a.Sticky }),
}

var limitFields = []field[verdict]{
	newField("max_prompt_tokens", limitKind, func(v *verdict) *int { return &v.MaxPromptTokens }),
	newField("max_output_tokens", limitKind, func(v *verdict) *int { return &v.MaxOutputTokens }),
	newField("max_concurrency", limitKind, func(v *verdict) *int { return &v.MaxConcurrency }),
	newField("tokens_per_minute", limitKind, func(v *verdict) *int { return &v.TokensPerMinute }),
	newField("requests_per_minute", limitKind, func(v *verdict) *int { return &v.RequestsPerMinute }),
}

// names returns the names of the fields, separated by commas.
func names[T any](fields []field[T]) string {
	var out []string
	for _, f := range fields {
		out = append(out, f.name)
	}
	return strings.Join(out, ", ")
}

// orList returns numbers as "1, 2 or 3".
func orList(ns []int) string {
	var out []string
	for _, n := range ns {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out[:len(out)-1], ", ") + " or " + out[len(out)-1]
}
