package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Diff is the difference between the decisions of a candidate and of the policy in
// force.
type Diff struct {
	From string `json:"from"` // revisions
	To   string `json:"to"`

	Compared    int `json:"compared"` // distinct inputs
	Skipped     int `json:"skipped"`  // inputs that were left out for lack of time
	Same        int `json:"same"`
	AllowToDeny int `json:"allow_to_deny"`
	DenyToAllow int `json:"deny_to_allow"`
	Widened     int `json:"widened"`     // more requests share the cache
	Namespace   int `json:"namespace"`   // another cache namespace, not wider: its prefixes are cold
	Constraints int `json:"constraints"` // other endpoints
	Other       int `json:"other"`       // limits, priority, profile, reason and the like
	Errors      int `json:"errors"`      // the candidate fails to decide

	P99Micros float64  `json:"p99_us"` // of the candidate's evaluations
	Changes   []Change `json:"changes"`
}

// Change is one decision that would change.
type Change struct {
	Kind   string          `json:"kind"`
	Input  json.RawMessage `json:"input"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// Kinds of changes.
const (
	changeAllowToDeny = "allow_to_deny"
	changeDenyToAllow = "deny_to_allow"
	changeWidened     = "widened"
	changeNamespace   = "namespace"
	changeConstraints = "constraints"
	changeOther       = "other"
	changeError       = "error"
)

// maxChanges bounds the changes that are listed, of each kind.
const maxChanges = 20

// Live returns up to n of the inputs whose decisions are cached: those of recent
// requests.
func (s *Snapshot) Live(n int) []*Input { return s.cache.inputs(n) }

// Compare evaluates both policies for the inputs, for at most the time d. The
// candidate's decisions stay in its cache, so that it is warm when it takes over.
func Compare(old, candidate *Snapshot, inputs []*Input, d time.Duration) *Diff {
	out := &Diff{From: old.revision, To: candidate.revision, Changes: []Change{}}
	end := time.Now().Add(d)
	listed := map[string]int{}
	var took []time.Duration
	var aside Counters // replayed decisions do not count as traffic
	for i, in := range inputs {
		if time.Now().After(end) {
			out.Skipped = len(inputs) - i
			break
		}
		begun := time.Now()
		after, err := candidate.decide(in, &aside)
		took = append(took, time.Since(begun))
		before, oldErr := old.decide(in, &aside)
		out.Compared++
		kind := out.count(before, after, oldErr, err)
		if kind == "" {
			continue
		}
		if listed[kind]++; listed[kind] <= maxChanges {
			out.Changes = append(out.Changes, Change{kind, inputJSON(in), decisionJSON(before, oldErr),
				decisionJSON(after, err)})
		}
	}
	if slices.Sort(took); len(took) > 0 {
		out.P99Micros = float64(took[(len(took)-1)*99/100]) / float64(time.Microsecond)
	}
	slices.SortStableFunc(out.Changes, func(a, b Change) int { return cmp.Compare(a.Kind, b.Kind) })
	return out
}

// count counts one pair and returns its kind, "" if the decisions are the same.
func (x *Diff) count(before, after *Decision, oldErr, err error) string {
	kind, n := changeOf(before, after, oldErr, err), &x.Same
	switch kind {
	case changeError:
		n = &x.Errors
	case changeAllowToDeny:
		n = &x.AllowToDeny
	case changeDenyToAllow:
		n = &x.DenyToAllow
	case changeWidened:
		n = &x.Widened
	case changeNamespace:
		n = &x.Namespace
	case changeConstraints:
		n = &x.Constraints
	case changeOther:
		n = &x.Other
	}
	*n++
	return kind
}

// scopeWidth orders scopes by how many requests share a namespace.
var scopeWidth = map[string]int{ScopeNone: 0, ScopeUser: 1, ScopeTenant: 2, ScopeGroup: 3, ScopePublic: 4}

func changeOf(before, after *Decision, oldErr, err error) string {
	switch {
	case err != nil && oldErr != nil:
		return ""
	case err != nil:
		return changeError
	case oldErr != nil:
		before = &Decision{}
	}
	switch {
	case before.Allow && !after.Allow:
		return changeAllowToDeny
	case !before.Allow && after.Allow:
		return changeDenyToAllow
	case scopeWidth[after.Scope] > scopeWidth[before.Scope]:
		return changeWidened
	case before.Namespace != after.Namespace && after.Scope == ScopeGroup: // another group
		return changeWidened
	case before.Namespace != after.Namespace:
		return changeNamespace
	case !sameConstraints(before.Constraints, after.Constraints):
		return changeConstraints
	}
	a, b := *before, *after
	a.Revision, b.Revision, a.Rules, b.Rules, a.Constraints, b.Constraints = "", "", nil, nil, nil, nil
	if x, y := mustJSON(a), mustJSON(b); string(x) != string(y) {
		return changeOther
	}
	return ""
}

// sameConstraints compares constraints regardless of order.
func sameConstraints(a, b []Constraint) bool {
	canonical := func(cs []Constraint) (out []string) {
		for _, c := range cs {
			v := slices.Clone(c.Values)
			slices.Sort(v)
			out = append(out, fmt.Sprintf("%q %v %q", c.Label, c.NotIn, slices.Compact(v)))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return slices.Equal(canonical(a), canonical(b))
}

// inputJSON returns the whole input document.
func inputJSON(in *Input) json.RawMessage {
	v, err := ast.JSON((*inputSet)(nil).document(in))
	if err != nil {
		return json.RawMessage(`null`)
	}
	return mustJSON(v)
}

func decisionJSON(d *Decision, err error) json.RawMessage {
	if err != nil {
		return mustJSON(map[string]string{"error": err.Error()})
	}
	return mustJSON(d.View())
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: policy: " + err.Error())
	}
	return b
}

// Gates are the largest shares of the live decisions that a new policy may change, in
// [0, 1]. A policy that changes more is refused.
type Gates struct{ AllowToDeny, DenyToAllow, Widened, Errors float64 }

// NoGates allows every change.
var NoGates = Gates{1, 1, 1, 1}

// Check returns Faults if d changes more than g allows.
func (g Gates) Check(d *Diff) error {
	var f faults
	for _, x := range []struct {
		name, what string
		n          int
		most       float64
	}{
		{"allow_to_deny", "would be denied", d.AllowToDeny, g.AllowToDeny},
		{"deny_to_allow", "would be allowed", d.DenyToAllow, g.DenyToAllow},
		{"widened", "would share their cache more widely", d.Widened, g.Widened},
		{"errors", "would get no decision", d.Errors, g.Errors},
	} {
		if share := float64(x.n) / float64(max(1, d.Compared)); share > x.most {
			f.add("", 0, 0, fmt.Sprintf("%d of %d live decisions %s (%.1f %%, policy.gates.%s is %.1f %%)", x.n, d.Compared,
				x.what, 100*share, x.name, 100*x.most),
				"see kvasir policy diff; if the changes are intended, reload with --force or raise the gate")
		}
	}
	return f.err()
}
