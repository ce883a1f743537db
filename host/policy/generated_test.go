package policy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite what is generated from decisionFields and inputFields in policies/")

// The table of policies/README.md is between these lines.
const (
	tableBegin = "<!-- decision fields: generated from host/policy/decisionfields.go by make generate -->\n"
	tableEnd   = "<!-- end of decision fields -->\n"
)

// TestDecisionFields_generated fails if the schema or the table of the decision
// differs from the text generated from decisionFields: run make generate.
func TestDecisionFields_generated(t *testing.T) {
	const schema, readme = "../../policies/schemas/decision.json", "../../policies/README.md"
	current(t, schema, []byte(decisionSchema()))
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no lines %q and %q", readme, tableBegin, tableEnd)
	}
	current(t, readme, []byte(before+tableBegin+decisionTable()+tableEnd+after))
}

// The table of the input in policies/README.md is between these lines.
const (
	inputBegin = "<!-- input fields: generated from host/policy/inputfields.go by make generate -->\n"
	inputEnd   = "<!-- end of input fields -->\n"
)

// TestInputFields_generated fails if the schema or the table of the input differs from
// the text generated from inputFields: run make generate.
func TestInputFields_generated(t *testing.T) {
	const schema, readme = "../../policies/schemas/input.json", "../../policies/README.md"
	current(t, schema, []byte(schemaOfInput()))
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), inputBegin)
	_, after, ended := strings.Cut(rest, inputEnd)
	if !found || !ended {
		t.Fatalf("%s has no lines %q and %q", readme, inputBegin, inputEnd)
	}
	current(t, readme, []byte(before+inputBegin+inputTable()+inputEnd+after))
}

// TestDecisionFields_documented: each row has documentation.
func TestDecisionFields_documented(t *testing.T) {
	for _, f := range decisionFields {
		if f.is == "" || f.without == "" {
			t.Errorf("decisionFields: %s has no doc", f.name)
		}
	}
}

// TestFields_whole: every field of a decision that is set is shown, so that the log
// and explain contain every row, and the schema accepts the result.
func TestFields_whole(t *testing.T) {
	v, err := decodeJSON(t, `{"allow": true, "reason": "r", "model": "m", "constraints": [{"label": "l", "op": "not_in",
	"values": ["v"]}],
		"prefer": [{"label": "l", "values": ["v"], "weight": 0.5}], "cache": {"scope": "group", "group": "g"},
		"affinity": {"weight": 2, "max_share": 0.5, "sticky": true},
		"priority": "high", "rate_class": "gold", "limits": {"max_prompt_tokens": 1, "max_output_tokens": 2,
		"max_concurrency": 3, "tokens_per_minute": 4000000, "requests_per_minute": 5},
		"profile": "fast", "audit": "full"}`)
	if err != nil {
		t.Fatal(err)
	}
	shown := v.Decision.Fields()
	for _, f := range decisionFields {
		if _, there := shown[f.name]; !there && f.name != "status" {
			t.Errorf("%s is not shown: %v", f.name, shown)
		}
	}
	want := "[model m l not in [v] prefers l [v] by 0.5 cache scope group affinity max_share 0.5, sticky true, weight " +
		"2 priority 9 rate_class gold " +
		"limits max_concurrency 3, max_output_tokens 2, max_prompt_tokens 1, requests_per_minute 5, tokens_per_minute " +
		"4000000 profile fast audit full]"
	if got := fmt.Sprint(shown.Text()); got != want {
		t.Errorf("text is\n%s\nwant\n%s", got, want)
	}
	view := v.Decision.View()
	var again View
	if err := again.UnmarshalJSON(mustJSON(view)); err != nil || fmt.Sprint(again.Fields.Text()) != want {
		t.Errorf("after JSON: %v, %v", again.Fields.Text(), err)
	}
	denied := (&Decision{Reason: "no", Status: 403, Model: "m", Audit: AuditFull}).Fields()
	if len(denied) != 3 || denied["allow"] != false || denied["reason"] != "no" || denied["status"] != 403 {
		t.Errorf("a denial shows %v", denied)
	}
}

// current compares the file with the text, or writes the text to the file.
func current(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not current: run make generate", path)
	}
}

func decisionSchema() string {
	return "{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n  \"title\": \"Output of " +
		"data.kvasir.decision\",\n  " + objectSchema(decisionFields, "") + "\n}\n"
}

func decisionTable() string {
	var b strings.Builder
	b.WriteString("| decision | is | without it |\n|---|---|---|\n")
	for _, f := range decisionFields {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name, f.is, f.without)
	}
	return b.String()
}

// inputKindSchemas are the members of a JSON Schema by kind of field.
var inputKindSchemas = [numInputKinds]string{
	InputText: `"type": "string"`, InputList: `"type": "array", "items": {"type": "string"}`,
	InputBool: `"type": "boolean"`, InputHour: `"type": "integer", "minimum": 0, "maximum": 23`,
	InputLabels: `"type": "object", "additionalProperties": {"type": "string"}`,
}

func schemaOfInput() string {
	return "{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n  \"title\": \"Input of " +
		"data.kvasir.decision, version 1\",\n" + inputObjectSchema("", "  ") + "}\n"
}

// inputObjectSchema returns the members of the schema of the object at a path, "" for
// the document.
func inputObjectSchema(path, indent string) string {
	var required, properties []string
	add := func(name, text string) {
		required = append(required, fmt.Sprintf("%q", name))
		properties = append(properties, fmt.Sprintf("%s  %q: %s", indent, name, text))
	}
	child := func(of string) (name string, found bool) {
		if path != "" {
			if of, found = strings.CutPrefix(of, path+"."); !found {
				return "", false
			}
		}
		return of, true
	}
	for i := range inputFields {
		f := &inputFields[i]
		name, found := child(f.path)
		object, _, nested := strings.Cut(name, ".")
		switch whole := strings.TrimPrefix(path+"."+object, "."); {
		case !found:
		case nested && !strings.Contains(strings.Join(required, " "), fmt.Sprintf("%q", object)):
			add(object, "{\n"+inputObjectSchema(whole, indent+"    ")+indent+"  }")
		case !nested:
			schema := inputKindSchemas[f.kind]
			if f.kind == InputConstant {
				schema = fmt.Sprintf(`"type": "string", "const": %q`, f.value)
			}
			add(name, fmt.Sprintf(`{%s, "description": %s}`, schema, mustJSON(f.is)))
		}
	}
	return fmt.Sprintf("%[1]s\"type\": \"object\",\n%[1]s\"additionalProperties\": false,\n%[1]s\"required\": [%[2]s],\n"+
		"%[1]s\"properties\": {\n%[3]s\n%[1]s}\n", indent, strings.Join(required, ", "), strings.Join(properties, ",\n"))
}

func inputTable() string {
	var b strings.Builder
	b.WriteString("| input | is |\n|---|---|\n")
	for i := range inputFields {
		fmt.Fprintf(&b, "| `%s` | %s |\n", inputFields[i].path, inputFields[i].is)
	}
	return b.String()
}
