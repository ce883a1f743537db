package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Bounds of one decision. Decisions in practice have a handful of each.
const (
	maxConstraints     = 64
	maxValues          = 1024
	maxWord            = 256     // bytes of a string
	maxLimit           = 1 << 40 // of tokens and requests
	maxAffinityWeight  = 10
	leastWeight        = 1e-6 // the value of a weight of 0: in Affinity 0 is unset
	defaultDenyStatus  = 403
	reasonIncomplete   = "policy_incomplete"
	statusUnavailable  = 503
	reasonDenied       = "denied"
	reasonAllowed      = "allowed"
	maxReason          = 64
	defaultClass       = "standard"
	constraintIn       = "in"
	constraintNotIn    = "not_in"
	errDecisionPattern = "policy: decision.%s %s"
)

// denyStatuses are the statuses a denial may have.
var denyStatuses = []int{401, 403, 404, 429, 503}

// verdict is a decision of the policy, before it is bound to a namespace.
type verdict struct {
	Decision
	group string // of the cache namespace
}

// decoder reads a decision document. It keeps the first error, after which its
// results are meaningless.
type decoder struct {
	classes map[string]int
	err     error
}

func (d *decoder) fail(path, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(errDecisionPattern, path, fmt.Sprintf(format, args...))
	}
}

// decode reads the document v. A field that the contract does not have, or a value
// of another type, is an error: a misspelt constraint must not be ignored.
func decode(v ast.Value, classes map[string]int) (*verdict, error) {
	if _, ok := v.(ast.Object); !ok {
		return nil, errors.New("policy: the decision is not an object")
	}
	d := decoder{classes: classes}
	out := &verdict{Decision: Decision{Scope: ScopeTenant}}
	present := readFields(&d, decisionFields, "", v, out)
	d.finish(out, present)
	if d.err != nil {
		return nil, d.err
	}
	return out, nil
}

// each calls f with the members of an object, by key.
func (d *decoder) each(path string, v ast.Value, f func(key string, v ast.Value)) {
	o, ok := v.(ast.Object)
	if !ok {
		d.fail(path, "is a %s, not an object", ast.ValueName(v))
		return
	}
	o.Foreach(func(k, v *ast.Term) {
		key, ok := k.Value.(ast.String)
		if !ok {
			d.fail(path, "has a key that is not a string")
			return
		}
		f(string(key), v.Value)
	})
}

// finish checks the fields that depend on each other and fills in the defaults
// of absent ones.
func (d *decoder) finish(out *verdict, present map[string]bool) {
	if out.Allow {
		if present["status"] {
			d.fail("status", "is set beside allow: true")
		}
		if out.Reason == "" {
			out.Reason = reasonAllowed
		}
		if !present["priority"] {
			out.Priority = d.classes[defaultClass]
		}
		return
	}
	if out.Reason == "" {
		out.Reason = reasonDenied
	}
	if out.Status == 0 {
		out.Status = defaultDenyStatus
	}
}

// terms calls f with the terms of an array or a set; another value is an error.
func (d *decoder) terms(path string, v ast.Value, f func(*ast.Term)) {
	switch v := v.(type) {
	case *ast.Array:
		v.Foreach(f)
	case ast.Set:
		v.Foreach(f)
	default:
		d.fail(path, "is a %s, not an array or a set", ast.ValueName(v))
	}
}

// items calls f with each element of an array or a set.
func (d *decoder) items(path string, v ast.Value, f func(path string, v ast.Value)) {
	n := 0
	d.terms(path, v, func(t *ast.Term) {
		if n++; n <= maxConstraints {
			f(path+"["+strconv.Itoa(n-1)+"]", t.Value)
		}
	})
	if n > maxConstraints {
		d.fail(path, "has %d elements, more than %d", n, maxConstraints)
	}
}

func (d *decoder) words(path string, v ast.Value) []string {
	out := []string{}
	d.terms(path, v, func(t *ast.Term) {
		if len(out) <= maxValues {
			out = append(out, d.word(path, t.Value))
		}
	})
	if len(out) > maxValues {
		d.fail(path, "has more than %d values", maxValues)
	}
	return out
}

func (d *decoder) word(path string, v ast.Value) string {
	s, ok := v.(ast.String)
	if !ok {
		d.fail(path, "is a %s, not a string", ast.ValueName(v))
	}
	if len(s) > maxWord {
		d.fail(path, "has more than %d bytes", maxWord)
		return ""
	}
	return string(s)
}

func (d *decoder) oneOf(path string, v ast.Value, words ...string) string {
	s := d.word(path, v)
	if !slices.Contains(words, s) {
		d.fail(path, "is %.80q, not one of %v", s, words)
	}
	return s
}

func (d *decoder) boolean(path string, v ast.Value) bool {
	b, ok := v.(ast.Boolean)
	if !ok {
		d.fail(path, "is a %s, not a boolean", ast.ValueName(v))
	}
	return bool(b)
}

func (d *decoder) integer(path string, v ast.Value) int {
	n, ok := v.(ast.Number)
	if !ok {
		d.fail(path, "is a %s, not a number", ast.ValueName(v))
		return 0
	}
	if i, ok := n.Int(); ok {
		return i
	}
	if f := d.number(path, n); f == math.Trunc(f) && math.Abs(f) <= maxLimit {
		return int(f)
	}
	d.fail(path, "is %.40s, not a whole number within %d", n, maxLimit)
	return 0
}

// positive returns a number that is at least 0.
func (d *decoder) positive(path string, v ast.Value) float64 {
	n, ok := v.(ast.Number)
	if !ok {
		d.fail(path, "is a %s, not a number", ast.ValueName(v))
		return 0
	}
	f := d.number(path, n)
	if f < 0 {
		d.fail(path, "is %v, below 0", f)
	}
	return f
}

func (d *decoder) number(path string, n ast.Number) float64 {
	f, err := json.Number(n).Float64()
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		d.fail(path, "is %.40s, out of range", n)
		return 0
	}
	return f
}

// validReason reports whether s is 1 to 64 lower-case letters, digits and _.
func validReason(s string) bool {
	if s == "" || len(s) > maxReason {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
