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
	decisionFile = "kvasir/decision.rego" // the file that errors name if the rule is missing
)

// testSuffix marks the modules that hold the policy's own tests.
const testSuffix = "_test.rego"

// inputSchema is the schema of the input document, for policies without one.
var inputSchema = func() []byte {
	text, err := policies.FS.ReadFile("schemas/input.json")
	if err != nil {
		panic("BUG: policy: " + err.Error()) // it is embedded
	}
	return text
}()

// program is compiled Rego without data. It is immutable and shared by all
// snapshots with the same modules.
type program struct {
	src      *Source // whose modules it is compiled from
	compiler *ast.Compiler
	modules  map[string]*ast.Module // parsed, tests too
	set      settings
	inputs   *inputSet
	shapes   map[string]*schema // see readSchemas
}

// settings are the settings of every compiler of a program.
type settings struct {
	caps    *ast.Capabilities
	schemas *ast.SchemaSet
}

func (s *settings) compiler() *ast.Compiler {
	return ast.NewCompiler().SetErrorLimit(maxFaults).WithCapabilities(s.caps).WithSchemas(s.schemas).
		WithUseTypeCheckAnnotations(true).WithStrict(true).WithDefaultRegoVersion(ast.RegoV1)
}

// compile parses and compiles the modules of src and makes the checks that need no
// data. It reuses parsed modules of prev, which may be nil, if their text is the same.
func compile(src *Source, prev *program, f *faults) *program {
	p := &program{src: src, modules: map[string]*ast.Module{}}
	before := len(f.all)
	p.set = readSettings(src, f)
	p.shapes = readSchemas(src, f)
	for _, name := range src.names() {
		if m := prev.parsed(src, name); m != nil {
			p.modules[name] = m
			continue
		}
		m, err := ast.ParseModuleWithOpts(name, string(src.modules[name]),
			ast.ParserOptions{RegoVersion: ast.RegoV1, Capabilities: p.set.caps, ProcessAnnotation: true})
		if err != nil {
			f.rego(err)
		} else if m == nil {
			f.add(name, 0, 0, "no Rego in the file", "write a package declaration, or delete the file")
		} else {
			p.modules[name] = m
		}
	}
	if len(f.all) > before {
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
	if len(f.all) > before {
		return nil
	}
	return p
}

// parsed returns the module name of p if src has the same, else nil.
func (p *program) parsed(src *Source, name string) *ast.Module {
	if p == nil || !bytes.Equal(p.src.capabilities, src.capabilities) ||
		!bytes.Equal(p.src.modules[name], src.modules[name]) {
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
			f.add(capabilityFile, 0, 0, err.Error(), "write it as opa capabilities --current prints it, "+
				"without the functions that rules must not use")
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

// check checks the compiled rules.
func (p *program) check(f *faults) {
	ref := ast.MustParseRef(decisionPath)
	rules := p.compiler.GetRulesExact(ref)
	if len(rules) == 0 {
		f.add(decisionFile, 0, 0, "missing rule "+decisionPath,
			`write package kvasir and default decision := {"allow": false, "reason": "policy_undefined"}`)
		return
	}
	if !slices.ContainsFunc(rules, deniesByDefault) {
		l := rules[0].Loc()
		f.add(l.File, l.Row, l.Col, "decision does not deny by default",
			`write default decision := {"allow": false, "reason": "policy_undefined"}`)
	}
	t := typeCheck{p: p, faults: f, seen: map[string]bool{}}
	t.decision(p.compiler.TypeEnv.GetByRef(ref), rules[0])
	refs, err := dependencies.Base(p.compiler, ast.NewBody(ast.NewExpr(ast.NewTerm(ref))))
	if err != nil {
		f.add(decisionFile, 0, 0, err.Error(), "use references that can be resolved at load time")
		return
	}
	p.inputs = newInputSet(refs, p, f)
	p.checkUnread(f)
	p.checkReferences(f)
}

// deniesByDefault reports whether r is a default rule with allow: false.
func deniesByDefault(r *ast.Rule) bool {
	o, ok := r.Head.Value.Value.(ast.Object)
	if !r.Default || !ok {
		return false
	}
	allow := o.Get(ast.StringTerm("allow"))
	return allow != nil && allow.Value.Compare(ast.Boolean(false)) == 0
}

// rego adds the errors of OPA's parser or compiler.
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
		f.add(file, line, col, what, fixFor(e))
	}
}

// fixFor returns the suggested fix for an error from OPA.
func fixFor(e *ast.Error) string {
	if d, ok := e.Details.(*ast.RefErrInvalidDetail); ok && len(d.OneOf) > 0 {
		var known []string
		for _, v := range d.OneOf {
			known = append(known, strings.Trim(v.String(), `"`))
		}
		return fmt.Sprintf("unknown name %v: %s", d.Ref[d.Pos], nearest(strings.Trim(d.Ref[d.Pos].String(), `"`), known))
	}
	for _, m := range fixes {
		if strings.Contains(e.Message, m.text) {
			return m.fix
		}
	}
	if e.Details != nil {
		if lines := e.Details.Lines(); len(lines) > 0 {
			return "look at " + strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
		}
	}
	return "see the policy language's reference"
}

// fixes are searched in order.
var fixes = []struct{ text, fix string }{
	{"illegal default rule", "use a constant as the default value"},
	{"cannot be used for rule name", "begin the rule with a name that is not a keyword, or complete the rule before it"},
	{"with keyword target", "write input, data or a function after with"},
	{"unexpected import path", "import data.…, input.… or rego.v1"},
	{"undefined function", "the function does not exist, or decisions may not depend on it: use input and data only " +
		"(capabilities.json lists the functions)"},
	{"undefined ref", "define it, import it, or fix its name"},
	{"match error", "compare values of one type"},
	{"invalid argument(s)", "use arguments of the types that the function takes"},
	{"is unsafe", "bind the variable first: some x in …, or define it"},
	{"unused", "use it or delete it"},
	{"deprecated built-in", "write instead: some x in …, every x in … {…}, regex.match"},
	{"empty module", "write a package declaration and rules, or delete the file"},
	{"undefined schema", "name a file of the folder schemas without .json, such as schema.input"},
	{"arity mismatch", "use as many arguments as the function takes"},
	{"eof", "close the bracket, brace or body that is open"},
	{"assigned var", "use the variable or write _"},
	{"`if` keyword is required", "write if before the body"},
	{"`contains` keyword is required", "write contains for a rule that makes a set"},
	{"conflict", "make the rules of one kind, or rename one"},
	{"recursive", "break the cycle: a rule may not depend on itself"},
	{"multiple default rules", "keep one default"},
	{"shadow", "choose another name: this one is in use"},
	{"redeclared", "choose another name: this one is in use"},
	{"unexpected", "fix the syntax here"},
	{"non-terminated", "close what is open here"},
	{"illegal", "write a valid token of Rego"},
	{"package", "begin the file with a package declaration"},
}
