package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Fields holds the fields of a decision that are set, by their names in the contract;
// for a denial only allow, reason and status. It never contains the salt. Values are
// strings, numbers, booleans, []any and map[string]any.
type Fields map[string]any

// Fields returns the fields of d. The map belongs to the caller.
func (d *Decision) Fields() Fields {
	all := showFields(decisionFields, &verdict{Decision: *d})
	if d.Scope == "" { // of the static engine, and of denials
		delete(all, "cache")
	}
	if d.Allow {
		return all
	}
	for i := range decisionFields {
		if f := &decisionFields[i]; !f.denied {
			delete(all, f.name)
		}
	}
	return all
}

// Text returns what applies to an allowed request, as explain prints it: one entry for
// each constraint and field, in the order of the contract.
func (f Fields) Text() []string {
	var out []string
	for i := range decisionFields {
		row := &decisionFields[i]
		v, set := f[row.name]
		switch {
		case !set || row.denied:
		case row.text != nil:
			list, _ := v.([]any)
			for _, one := range list {
				out = append(out, row.text(one))
			}
		default:
			out = append(out, row.name+" "+plain(v))
		}
	}
	return out
}

// plain formats a value of Fields for people.
func plain(v any) string {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		var parts []string
		for _, one := range v {
			parts = append(parts, plain(one))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+" "+plain(v[name]))
		}
		return strings.Join(parts, ", ")
	}
	return fmt.Sprint(v)
}

func constraintText(shown any) string {
	c, _ := shown.(map[string]any)
	op := "in"
	if c["op"] == constraintNotIn {
		op = "not in"
	}
	return fmt.Sprintf("%v %s %s", c["label"], op, plain(c["values"]))
}

func preferenceText(shown any) string {
	p, _ := shown.(map[string]any)
	return fmt.Sprintf("prefers %v %s by %s", p["label"], plain(p["values"]), plain(p["weight"]))
}

// View is a decision in the form that is shown to people. Its JSON is one object:
// Fields, namespace_hash, rules and revision.
type View struct {
	Fields    Fields
	Namespace string   // keyed hash of the cache namespace; "" of a denial
	Rules     []string // ids of the rules that decided
	Revision  string   // of policy and data
}

// viewRest are the members of a View's JSON that are no fields of the contract.
type viewRest struct {
	Namespace string   `json:"namespace_hash,omitempty"`
	Rules     []string `json:"rules"`
	Revision  string   `json:"revision"`
}

// View returns d for people.
func (d *Decision) View() View {
	return View{Fields: d.Fields(), Namespace: d.Namespace, Rules: d.Rules, Revision: d.Revision}
}

// MarshalJSON implements json.Marshaler.
func (v View) MarshalJSON() ([]byte, error) {
	out := map[string]any{"rules": v.Rules, "revision": v.Revision}
	if v.Namespace != "" {
		out["namespace_hash"] = v.Namespace
	}
	maps.Copy(out, v.Fields)
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *View) UnmarshalJSON(text []byte) error {
	var rest viewRest
	fields := Fields{}
	if err := json.Unmarshal(text, &rest); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	for _, name := range []string{"namespace_hash", "rules", "revision"} {
		delete(fields, name)
	}
	*v = View{Fields: fields, Namespace: rest.Namespace, Rules: rest.Rules, Revision: rest.Revision}
	return nil
}
