package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/dependencies"

	"github.com/kvasir-router/kvasir/policies"
)

// Entry points of a policy.
const (
	decisionPath = "data.kvasir.decision"
	decisionFile = "kvasir/decision.rego" // where its absence is told
)

// testSuffix marks the modules that hold the policy's own tests.
const testSuffix = "_test.rego"

// inputSchema is the contract of the input document, for policies that bring no
// schema of it.
var inputSchema = func() []byte {
	text, err := policies.FS.ReadFile("schemas/input.json")
	if err != nil {
		panic("BUG: policy: " + err.Error()) // it is embedded
	}
	return text
}()

// program is compiled Rego without data. It is immutable and shared by all
// snapshots whose modules are the same.
type program struct {
	src      *Source // whose modules it is compiled from
	compiler *ast.Compiler
	modules  map[string]*ast.Module // parsed, tests too
	set      settings
	inputs   *inputSet
	shapes   map[string]*schema // see readSchemas
}

// settings are what every compiler of a program is given.
type settings struct {
	caps    *ast.Capabilities
	schemas *ast.SchemaSet
}

func (s *settings) compiler() *ast.Compiler {
	return ast.NewCompiler().SetErrorLimit(maxFaults).WithCapabilities(s.caps).WithSchemas(s.schemas).
		WithUseTypeCheckAnnotations(true).WithStrict(true).WithDefaultRegoVersion(ast.RegoV1)
}

// compile parses and compiles the modules of src and checks what can be known
// without data. Modules that prev, which may be nil, has too are not parsed again.
func compile(src *Source, prev *program, f *faults) *program {
	p := &program{src: src, modules: map[string]*ast.Module{}}
	sound := len(f.all)
	p.set = readSettings(src, f)
	p.shapes = readSchemas(src, f)
	for _, name := range src.names() {
		if m := prev.parsed(src, name); m != nil {
			p.modules[name] = m
			continue
		}
		m, err := ast.ParseModuleWithOpts(name, string(src.modules[name]), ast.ParserOptions{RegoVersion: ast.RegoV1, Capabilities: p.set.caps, ProcessAnnotation: true})
		if err != nil {
			f.rego(err)
		} else if m == nil {
			f.add(name, 0, 0, "no Rego in it", "write a package line, or delete the file")
		} else {
			p.modules[name] = m
		}
	}
	if len(f.all) > sound {
		return nil
	}
	rules := maps.Clone(p.modules)
	maps.DeleteFunc(rules, func(name string, _ *ast.Module) bool { return strings.HasSuffix(name, testSuffix) })
	p.compiler = p.set.compiler()
	if p.compiler.Compile(rules); p.compiler.Failed() {
		p.relocate(p.compiler.Errors)
		f.rego(p.compiler.Errors)
		return nil
	}
	p.check(f)
	if len(f.all) > sound {
		return nil
	}
	return p
}

// parsed returns the module of p that src has too, nil if there is none.
func (p *program) parsed(src *Source, name string) *ast.Module {
	if p == nil || !bytes.Equal(p.src.capabilities, src.capabilities) || !bytes.Equal(p.src.modules[name], src.modules[name]) {
		return nil
	}
	return p.modules[name]
}

// readSettings reads capabilities and schemas.
func readSettings(src *Source, f *faults) settings {
	s := settings{caps: ast.CapabilitiesForThisVersion(), schemas: ast.NewSchemaSet()}
	if src.capabilities != nil {
		caps, err := ast.LoadCapabilitiesJSON(bytes.NewReader(src.capabilities))
		if err != nil {
			f.add(capabilityFile, 0, 0, err.Error(), "write it as opa capabilities --current prints it, without what no rule may use")
		} else {
			s.caps = caps
		}
	}
	s.caps.AllowNet = []string{}
	known := ast.CapabilitiesForThisVersion()
	s.caps.Builtins = slices.DeleteFunc(s.caps.Builtins, func(b *ast.Builtin) bool {
		i := slices.IndexFunc(known.Builtins, func(k *ast.Builtin) bool { return k.Name == b.Name })
		return i < 0 || known.Builtins[i].Nondeterministic
	})
	all := map[string][]byte{"input": inputSchema}
	maps.Copy(all, src.schemas)
	for name, text := range all {
		var raw any
		if err := json.Unmarshal(text, &raw); err != nil {
			f.add("schemas/"+name+".json", 0, 0, err.Error(), "write it as JSON")
			continue
		}
		s.schemas.Put(ast.Ref{ast.SchemaRootDocument, ast.StringTerm(name)}, raw)
		if name == "input" {
			s.schemas.Put(ast.SchemaRootRef, raw)
		}
	}
	return s
}

// check looks at the compiled rules.
func (p *program) check(f *faults) {
	ref := ast.MustParseRef(decisionPath)
	rules := p.compiler.GetRulesExact(ref)
	if len(rules) == 0 {
		f.add(decisionFile, 0, 0, "there is no rule "+decisionPath, `write package kvasir and default decision := {"allow": false, "reason": "policy_undefined"}`)
		return
	}
	if !slices.ContainsFunc(rules, deniesByDefault) {
		l := rules[0].Loc()
		f.add(l.File, l.Row, l.Col, "decision has no default that denies", `write default decision := {"allow": false, "reason": "policy_undefined"}`)
	}
	t := typeCheck{p: p, faults: f, seen: map[string]bool{}}
	t.decision(p.compiler.TypeEnv.GetByRef(ref), rules[0])
	refs, err := dependencies.Base(p.compiler, ast.NewBody(ast.NewExpr(ast.NewTerm(ref))))
	if err != nil {
		f.add(decisionFile, 0, 0, err.Error(), "write rules whose references can be followed")
		return
	}
	p.inputs = newInputSet(refs, p, f)
	p.checkUnread(f)
	p.checkReferences(f)
}

// deniesByDefault reports whether r is a default with allow: false.
func deniesByDefault(r *ast.Rule) bool {
	o, ok := r.Head.Value.Value.(ast.Object)
	if !r.Default || !ok {
		return false
	}
	allow := o.Get(ast.StringTerm("allow"))
	return allow != nil && allow.Value.Compare(ast.Boolean(false)) == 0
}

// rego adds the faults that OPA's parser or compiler found.
func (f *faults) rego(err error) {
	var all ast.Errors
	var one *ast.Error
	if errors.As(err, &one) {
		all = ast.Errors{one}
	} else if !errors.As(err, &all) {
		f.add("", 0, 0, err.Error(), "see the policy language's reference")
		return
	}
	for _, e := range all {
		file, line, col := "", 0, 0
		if e.Location != nil {
			file, line, col = e.Location.File, e.Location.Row, e.Location.Col
		}
		what := e.Message
		f.add(file, line, col, what, mend(e))
	}
}

// mend says what to write instead of what OPA refused.
func mend(e *ast.Error) string {
	if d, ok := e.Details.(*ast.RefErrInvalidDetail); ok && len(d.OneOf) > 0 {
		var known []string
		for _, v := range d.OneOf {
			known = append(known, strings.Trim(v.String(), `"`))
		}
		return fmt.Sprintf("%v is not known here: %s", d.Ref[d.Pos], nearest(strings.Trim(d.Ref[d.Pos].String(), `"`), known))
	}
	for _, m := range mends {
		if strings.Contains(e.Message, m.text) {
			return m.mend
		}
	}
	if e.Details != nil {
		if lines := e.Details.Lines(); len(lines) > 0 {
			return "look at " + strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
		}
	}
	return "see the policy language's reference"
}

// mends are looked through in order.
var mends = []struct{ text, mend string }{
	{"illegal default rule", "give the default a constant"},
	{"cannot be used for rule name", "begin the rule with a name that is no word of the language, or complete the one before it"},
	{"with keyword target", "write input, data or a function after with"},
	{"unexpected import path", "import data.…, input.… or rego.v1"},
	{"undefined function", "it does not exist, or a decision may not depend on it: use input and data only (capabilities.json lists what may be used)"},
	{"undefined ref", "define it, import it, or mend its name"},
	{"match error", "compare values of one type"},
	{"invalid argument(s)", "give it arguments of the types it takes"},
	{"is unsafe", "bind the variable first: some x in …, or define it"},
	{"unused", "use it or delete it"},
	{"deprecated built-in", "write what it does: some x in …, every x in … {…}, regex.match"},
	{"empty module", "write a package line and rules, or delete the file"},
	{"undefined schema", "name a file of the folder schemas without .json, such as schema.input"},
	{"arity mismatch", "give it as many arguments as it takes"},
	{"eof", "close what was opened: a bracket, a brace or a body is not complete"},
	{"assigned var", "use the variable or write _"},
	{"`if` keyword is required", "write if before the body"},
	{"`contains` keyword is required", "write contains for a rule that makes a set"},
	{"conflict", "give the rules one kind, or another name"},
	{"recursive", "break the circle: a rule may not depend on itself"},
	{"multiple default rules", "keep one default"},
	{"shadow", "choose another name: this one is taken"},
	{"redeclared", "choose another name: this one is taken"},
	{"unexpected", "mend the syntax here"},
	{"non-terminated", "close what is opened here"},
	{"illegal", "write a token that Rego knows"},
	{"package", "begin the file with a package line"},
}
