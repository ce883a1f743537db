package admin

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite SCOPES.md and openapi.json")

// fresh compares a generated file with what it should be.
func fresh(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the routes are (%v): go test ./host/admin -run 'TestScopes_page|TestOpenAPI' -update", file,
			err)
	}
}

// TestScopes_page: SCOPES.md is what the routes are, whatever a server is
// configured with.
func TestScopes_page(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Paths and scopes of the admin API\n\nGenerated from the table of routes (`routes.go`); " +
		"`openapi.json` has the requests and responses.\n" +
		"`noun:*` is all scopes of a noun. Scopes of keys reach the holder's own tenant; `key:issue@acme` reaches one " +
		"tenant, `key:issue@*` all.\n" +
		"What needs no scope needs no credential. Where a policy is loaded it must allow the request too.\n\n" +
		"| path | scope | audit log | what it does |\n|---|---|---|---|\n")
	code := func(s string) string {
		if s == "" {
			return ""
		}
		return "`" + s + "`"
	}
	for _, rt := range Routes() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", rt, code(rt.Scope), code(string(rt.Action)), rt.Doc)
	}
	fresh(t, "SCOPES.md", b.String())
}

// TestTable: each route is complete, and no two are the same.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, rt := range Routes() {
		if rt.Doc == "" || !strings.HasSuffix(rt.Doc, ".") || seen[rt.pattern()] ||
			(rt.Scope != "" && !slices.Contains(Scopes, rt.Scope)) {
			t.Errorf("%s: doc %q, scope %q, twice %v", rt, rt.Doc, rt.Scope, seen[rt.pattern()])
		}
		seen[rt.pattern()] = true
		if rt.Method != "GET" && rt.Action == "" && !strings.HasPrefix(rt.Scope, "policy:read") {
			t.Errorf("%s changes something and is not recorded", rt)
		}
		if (rt.Response == nil) == (rt.ContentType == "") {
			t.Errorf("%s: a response type and a content type exclude each other", rt)
		}
	}
}

// TestTable_whole: no path gets a handler outside of the table.
func TestTable_whole(t *testing.T) {
	allowed := map[string]int{"register": 1, "Handler": 2, "ServeMetrics": 1} // the last two: for unknown paths
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if ok && (sel.Sel.Name == "Handle" || sel.Sel.Name == "HandleFunc") {
					if allowed[fn.Name.Name]--; allowed[fn.Name.Name] < 0 {
						t.Errorf("%s: %s adds a handler outside of the table", file, fn.Name.Name)
					}
				}
				return true
			})
		}
	}
}

// TestOpenAPI: the document that is served is what the routes are.
func TestOpenAPI(t *testing.T) {
	b, err := json.MarshalIndent(document(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	fresh(t, "openapi.json", string(b)+"\n")
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(b, &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("%v: %s", err, doc.OpenAPI)
	}
	n := 0
	for _, methods := range doc.Paths {
		n += len(methods)
	}
	if n != len(Routes()) {
		t.Errorf("%d operations, %d routes", n, len(Routes()))
	}
	for _, ref := range strings.Split(string(b), `"#/components/schemas/`)[1:] {
		if name, _, _ := strings.Cut(ref, `"`); doc.Components.Schemas[name] == nil {
			t.Errorf("there is no schema %s", name)
		}
	}
}

// document builds the OpenAPI document of the table.
func document() map[string]any {
	s := schemas{}
	paths := map[string]map[string]any{}
	for _, rt := range Routes() {
		path := strings.ReplaceAll(rt.Path, "...}", "}")
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(rt.Method)] = s.operation(rt)
	}
	s.of(reflect.TypeFor[ErrorBody]())
	return map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "Kvasir admin API", "version": "1",
			"description": "Generated from the table of routes; see SCOPES.md."},
		"paths": paths,
		"components": map[string]any{
			"schemas": s,
			"securitySchemes": map[string]any{"bearer": map[string]any{"type": "http", "scheme": "bearer",
				"description": "The admin token, an API key or a JWT with the scope of the path."}},
		},
	}
}

// schemas are JSON schemas by the name of their type.
type schemas map[string]any

func (s schemas) operation(rt *Route) map[string]any {
	op := map[string]any{"summary": rt.Doc, "responses": map[string]any{"200": s.response(rt), "default": errorResponse}}
	if rt.Scope == "" {
		op["security"] = []any{}
	} else {
		op["security"] = []any{map[string]any{"bearer": []string{rt.Scope}}}
		op["x-scope"] = rt.Scope
	}
	if rt.Action != "" {
		op["x-audit-action"] = string(rt.Action)
	}
	if rt.Request == nil {
		return op
	}
	params, object := paramsOf(rt.Request)
	var list []any
	for _, p := range params {
		switch p.place {
		case inPath, inQuery:
			in := map[place]string{inPath: "path", inQuery: "query"}[p.place]
			list = append(list, map[string]any{"name": p.name, "in": in, "required": p.required, "description": p.doc,
				"schema": paramSchema(p.typ)})
		case inRawBody:
			op["requestBody"] = body("application/octet-stream", map[string]any{}, p.doc)
		case inJSONBody:
			op["requestBody"] = body("application/json", s.of(p.typ), p.doc)
		}
	}
	if list != nil {
		op["parameters"] = list
	}
	if object {
		op["requestBody"] = body("application/json", s.of(rt.Request), "")
	}
	return op
}

func body(contentType string, schema any, doc string) map[string]any {
	b := map[string]any{"required": true, "content": map[string]any{contentType: map[string]any{"schema": schema}}}
	if doc != "" {
		b["description"] = doc
	}
	return b
}

var errorResponse = map[string]any{"description": "The request was not done.", "content": map[string]any{
	"application/json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/ErrorBody"}}}}

func (s schemas) response(rt *Route) map[string]any {
	if rt.Response == nil {
		return map[string]any{"description": "OK", "content": map[string]any{rt.ContentType: map[string]any{}}}
	}
	return map[string]any{"description": "OK",
		"content": map[string]any{"application/json": map[string]any{"schema": s.of(rt.Response)}}}
}

func paramSchema(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int64:
		return map[string]any{"type": "string", "description": "a duration such as 24h"}
	}
	return map[string]any{"type": "string"}
}

// of returns the schema of a type; structs are kept by name and referred to.
func (s schemas) of(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[[]byte]():
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[any]():
		return map[string]any{}
	}
	if t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": []string{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.ref(t)
	}
	return map[string]any{"type": "integer"}
}

// ref returns a reference to the schema of a struct.
func (s schemas) ref(t reflect.Type) map[string]any {
	name := t.Name()
	if pkg := filepath.Base(t.PkgPath()); pkg != "admin" {
		name = pkg + "." + name
	}
	if t.Name() == "" {
		return s.object(t)
	}
	if s[name] == nil {
		s[name] = map[string]any{} // of a type that holds itself
		s[name] = s.object(t)
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

// object returns the schema of a struct's members as encoding/json writes them.
func (s schemas) object(t reflect.Type) map[string]any {
	members, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		members[name] = s.of(f.Type)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	out := map[string]any{"type": "object", "properties": members}
	if len(required) > 0 {
		slices.Sort(required)
		out["required"] = required
	}
	return out
}

// roundTrip calls operations by their own clients.
type roundTrip struct {
	*site
	t      *testing.T
	c      *Client
	called map[string]bool // patterns of routes
}

// check records a call of a route. ok says that the answer, or what the server read, is
// as it was sent.
func (x *roundTrip) check(rt *Route, err error, ok bool) {
	x.t.Helper()
	x.called[rt.pattern()] = true
	if err != nil || !ok {
		x.t.Errorf("%s: %v, as sent %v", rt, err, ok)
	}
}

// TestOperations_roundTrip calls every operation by its own client, so that what
// the client writes is what the server reads.
func TestOperations_roundTrip(t *testing.T) {
	s := newSite(t, nil)
	x := &roundTrip{s, t, &Client{URL: s.url + "/", Token: token}, map[string]bool{}}
	x.callRouter(t.Context())
	x.callPlugins(t.Context())
	x.callKeys(t.Context())
	x.callPolicies(t.Context())
	for _, rt := range Routes() {
		if rt.Response != nil && !x.called[rt.pattern()] {
			t.Errorf("%s is not called here", rt)
		}
	}
	x.c.Token = "wrong"
	if _, err := ListKeys.Call(t.Context(), x.c, &None{}); !isStatus(err, 401, "invalid_token") {
		t.Errorf("got %v", err)
	}
	if _, err := ListKeys.Call(t.Context(), &Client{URL: "http://127.0.0.1:1"}, &None{}); err == nil ||
		strings.Contains(err.Error(), "/v1/") || !strings.Contains(err.Error(), "no router at") {
		t.Errorf("got %v", err)
	}
}

// callRouter calls what is about the router, its endpoints and its pools.
func (x *roundTrip) callRouter(ctx context.Context) {
	r, err := Reload.Call(ctx, x.c, &None{})
	x.check(Reload.Route, err, err == nil && r.Revision == 2)
	e, err := Explain.Call(ctx, x.c, &ExplainRequest{ID: "known", Tenant: "acme"})
	x.check(Explain.Route, err, err == nil && e.RequestID == "known" && e.Counterfactual == nil)
	e, err = Explain.Call(ctx, x.c, &ExplainRequest{ID: "known", Counterfactual: true})
	x.check(Explain.Route, err, err == nil && len(e.Counterfactual) == 1)
	_, err = ExplainDryRun.Call(ctx, x.c, &DryRun{Tenant: "acme", User: "u v&w", Path: "/v1/completions",
		Body: []byte("abc")})
	d := x.cfg.Explainer.(*fake).lastDry
	x.check(ExplainDryRun.Route, err, d.Tenant == "acme" && d.User == "u v&w" && d.Path == "/v1/completions" &&
		string(d.Body) == "abc")
	es, err := ListEndpoints.Call(ctx, x.c, &None{})
	x.check(ListEndpoints.Route, err, len(es) == 1)
	for _, o := range []Operation[HoldRequest, *HoldResult]{Cordon, Drain, Uncordon} {
		h, err := o.Call(ctx, x.c, &HoldRequest{Endpoint: "http://e:1/?a=b&c"})
		x.check(o.Route, err, err == nil && h.Endpoint == "http://e:1/?a=b&c" && strings.HasSuffix(o.Path, h.Held))
	}
	l, err := GetLocality.Call(ctx, x.c, &None{})
	x.check(GetLocality.Route, err, err == nil && l.Weight == 1)
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	l, err = SetLocality.Call(ctx, x.c, &LocalityRequest{Weight: 0.5, Until: until})
	x.check(SetLocality.Route, err, err == nil && l.Weight == 0.5 && l.Until.Equal(until))
	as, err := GetAutoscale.Call(ctx, x.c, &None{})
	x.check(GetAutoscale.Route, err, len(as) == 1 && as[0].Desired == 2)
	when := time.Unix(1e9, 0).UTC()
	n, err := GiveNotice.Call(ctx, x.c, &Notice{Pool: "p", Endpoint: "e", Deadline: when})
	x.check(GiveNotice.Route, err, err == nil && n.Deadline.Equal(when) && n.Pool == "p")
	_, err = GetStatus.Call(ctx, x.c, &None{})
	x.check(GetStatus.Route, nil, isStatus(err, 500, "internal_error"))
}

func (x *roundTrip) callPlugins(ctx context.Context) {
	pl, err := ListPlugins.Call(ctx, x.c, &None{})
	x.check(ListPlugins.Route, err, len(pl.Plugins) == 1)
	p, err := PushPlugin.Call(ctx, x.c, &PushRequest{Name: "mine", Activate: true, Code: []byte("code")})
	x.check(PushPlugin.Route, err, err == nil && p.Name == "mine" && p.Active && p.Note == "4")
	p, err = ActivatePlugin.Call(ctx, x.c, &ActivateRequest{Name: "mine", Digest: "abc"})
	x.check(ActivatePlugin.Route, err, err == nil && p.Name == "mine" && p.Digest == "abc")
	_, err = RollbackPlugin.Call(ctx, x.c, &PluginRequest{Name: "mine"})
	x.check(RollbackPlugin.Route, nil, isStatus(err, 404, "not_found"))
	p, err = DeactivatePlugin.Call(ctx, x.c, &PluginRequest{Name: "mine"})
	x.check(DeactivatePlugin.Route, err, err == nil && p.Name == "no mine")
	_, err = EndShadow.Call(ctx, x.c, &PluginRequest{Name: "mine"})
	x.check(EndShadow.Route, nil, isStatus(err, 404, "not_found"))
}

func (x *roundTrip) callKeys(ctx context.Context) {
	ks, err := ListKeys.Call(ctx, x.c, &None{})
	x.check(ListKeys.Route, err, len(ks.Keys) == 5)
	q := &KeyRequest{Note: "a note", TTL: "1h"}
	q.Tenant, q.Labels = "acme", map[string]string{"a": "b"}
	k, err := IssueKey.Call(ctx, x.c, q)
	asked := x.keys.asked[0]
	x.check(IssueKey.Route, err, k.Key == pasted && asked.Tenant == "acme" && asked.Labels["a"] == "b" &&
		asked.Terms.TTL == time.Hour)
	k, err = RotateKey.Call(ctx, x.c, &RotateRequest{Key: "k1", Grace: 90 * time.Minute})
	x.check(RotateKey.Route, err, k.Old == "k1")
	_, err = RotateKey.Call(ctx, x.c, &RotateRequest{Key: "k1"})
	x.check(RotateKey.Route, err, true) // a grace of 0s is one
	rv, err := RevokeKey.Call(ctx, x.c, &RevokeRequest{Key: "k1"})
	x.check(RevokeKey.Route, err, rv.ID == "k1")
}

func (x *roundTrip) callPolicies(ctx context.Context) {
	ps, err := GetPolicy.Call(ctx, x.c, &None{})
	x.check(GetPolicy.Route, err, err == nil && ps.Engine == "opa")
	files := map[string][]byte{"a.rego": []byte("package a")}
	ps, err = PushPolicy.Call(ctx, x.c, &PolicyPushRequest{Force: true, Files: files})
	x.check(PushPolicy.Route, err, err == nil && ps.Source == "pushed a.rego true")
	ps, err = ReloadPolicy.Call(ctx, x.c, &PolicyReloadRequest{Force: true})
	x.check(ReloadPolicy.Route, err, err == nil && ps.Revision == "r1")
	df, err := DiffPolicy.Call(ctx, x.c, &PolicyDiffRequest{Files: files})
	x.check(DiffPolicy.Route, err, err == nil && df.Compared == 7)
	ex, err := ExplainPolicy.Call(ctx, x.c, &PolicyExplainRequest{Input: []byte(`{"a":1}`)})
	x.check(ExplainPolicy.Route, err, err == nil && ex.Revision == `{"a":1}`)
}

func isStatus(err error, status int, code string) bool {
	e, ok := err.(*StatusError)
	return ok && e.Status == status && e.Code == code
}
