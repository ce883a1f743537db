package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/plugsign"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/plugins"
)

var update = flag.Bool("update", false, "rewrite the bundles of the SDKs")

// TestSDK_bundles: what plugin new writes is what is in sdk.
func TestSDK_bundles(t *testing.T) {
	for path, want := range map[string]string{"plugin_sdk_go.txt": bundleOf(t, "../../sdk/go"),
		"plugin_sdk_c.txt":    bundleOf(t, "../../sdk/c"),
		"plugin_sdk_rust.txt": bundleOf(t, "../../sdk/rust")} {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what is in sdk: go test ./cmd/kvasir -run TestSDK_bundles -update", path)
		}
	}
}

func bundleOf(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err == nil && d.IsDir() && (name == "vectors" || name == "target") {
			return fs.SkipDir // tests the SDK, and what cargo makes
		}
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") || name == "build.sh" || name == "Cargo.lock" ||
			name == ".gitignore" || root == "../../sdk/c" && name == "README.md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		b.WriteString("-- " + filepath.ToSlash(rel) + " --\n" + string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// run runs a command and returns its output and exit code.
func run(t *testing.T, args ...string) (out string, code int, err error) {
	t.Helper()
	c := root()
	var b bytes.Buffer
	c.SetOut(&b)
	c.SetErr(&b)
	c.SetArgs(args)
	c.SetContext(t.Context())
	err = c.Execute()
	if err != nil {
		code = exitUsage
		if e, ok := errors.AsType[*exitError](err); ok {
			code = e.code
		}
	}
	return b.String(), code, err
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, _, err := run(t, args...)
	if err != nil {
		t.Fatalf("kvasir %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TestPlugin_go goes from an empty folder to a checked scorer.
func TestPlugin_go(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my-scorer")
	mustRun(t, "plugin", "new", "my-scorer", "--lang", "go", "--dir", dir)
	src, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if formatted, err := format.Source(src); err != nil || !bytes.Equal(formatted, src) {
		t.Errorf("main.go is not as gofmt writes it: %v", err)
	}
	if tiny, ok := testdeps.TinyGo(t); ok {
		t.Setenv("PATH", filepath.Dir(tiny)+string(os.PathListSeparator)+os.Getenv("PATH"))
		if out := mustRun(t, "plugin", "build", dir); !strings.Contains(out, "by tinygo") {
			t.Errorf("TinyGo is there and not used: %s", out)
		}
		mustRun(t, "plugin", "check", filepath.Join(dir, "my-scorer.wasm"), "--calls", "200")
	}
	mustRun(t, "plugin", "build", dir, "--with", "go")
	out := mustRun(t, "plugin", "check", filepath.Join(dir, "my-scorer.wasm"), "--calls", "200", "--output", "json")
	var rep struct {
		OK    bool
		Name  string
		Roles []string
	}
	if err := json.Unmarshal([]byte(out), &rep); err != nil || !rep.OK || rep.Name != "my-scorer" {
		t.Errorf("%v, %s", err, out)
	}
	if _, code, err := run(t, "plugin", "new", "my-scorer", "--dir", dir); code != exitNo ||
		!strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second time: code %d, %v", code, err)
	}
}

func TestPlugin_c(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "in-c")
	mustRun(t, "plugin", "new", "other-name", "--lang", "c", "--dir", dir)
	for _, f := range []string{"scorer.c", "kvasir.h", "kvasir_abi.h", "README.md", "COLUMNS.md"} {
		if b, err := os.ReadFile(filepath.Join(dir, f)); err != nil || bytes.Contains(b, []byte("{{")) {
			t.Errorf("%s: %v", f, err)
		}
	}
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Log("clang-19 is not installed: not built")
		return
	}
	mustRun(t, "plugin", "build", dir, "--", "-msimd128")
	if out := mustRun(t, "plugin", "check", filepath.Join(dir, "in-c.wasm")); !strings.Contains(out, "other-name 0.1.0") {
		t.Error(out)
	}
	if err := os.WriteFile(filepath.Join(dir, "scorer.c"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code, err := run(t, "plugin", "build", dir); code != exitNo || !strings.Contains(err.Error(), "scorer.c:1") {
		t.Errorf("nonsense: code %d, %v", code, err)
	}
}

// TestPlugin_rust goes from an empty folder to a checked scorer, where Rust can
// build for WebAssembly.
func TestPlugin_rust(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my-scorer")
	mustRun(t, "plugin", "new", "in-rust", "--lang", "rust", "--dir", dir)
	if !testdeps.RustWasm(t) {
		return
	}
	if out := mustRun(t, "plugin", "build", dir); !strings.Contains(out, "by cargo") {
		t.Error(out)
	}
	if out := mustRun(t, "plugin", "check", filepath.Join(dir, "my-scorer.wasm"), "--calls",
		"200"); !strings.Contains(out, "in-rust 0.1.0") {
		t.Error(out)
	}
	if err := os.WriteFile(filepath.Join(dir, "src", "lib.rs"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code, err := run(t, "plugin", "build", dir); code != exitNo || !strings.Contains(err.Error(), "src/lib.rs:1") {
		t.Errorf("nonsense: code %d, %v", code, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "src", "lib.rs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cargo := filepath.Join(dir, "Cargo.toml")
	text, err := os.ReadFile(cargo)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cargo, bytes.Replace(text, []byte(`"cdylib"`), []byte(`"rlib"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code, err := run(t, "plugin", "build", dir); code != exitNo ||
		!strings.Contains(err.Error(), "want one: set crate-type") {
		t.Errorf("no cdylib: code %d, %v", code, err)
	}
}

// TestPlugin_examples: the commands of the examples' READMEs, and the bytes of
// the module that is committed.
func TestPlugin_examples(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Log("clang-19 is not installed: not built")
		return
	}
	out := filepath.Join(t.TempDir(), "x.wasm")
	mustRun(t, "plugin", "build", "../../examples/scorer-c", "-o", out)
	mustRun(t, "plugin", "check", out, "--calls", "200")
	mustRun(t, "plugin", "build", "../../examples/learned-rate", "-o", out, "--with", "clang")
	mustRun(t, "plugin", "check", out, "--calls", "200")
	if _, err := exec.LookPath("wasm-opt"); err == nil {
		t.Log("clang runs the installed wasm-opt on what it links: bytes not compared")
		return
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../examples/learned-rate/learned_rate.wasm")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("learned_rate.wasm is not what plugin build makes of its source: %v", err)
	}
}

// TestPlugin_noCompiler: the error names what to install.
func TestPlugin_noCompiler(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("CC", "")
	for lang, want := range map[string]string{"go": "install Go 1.24", "c": "apt-get install clang-19 lld-19",
		"rust": "rustup target add"} {
		project := filepath.Join(dir, lang)
		mustRun(t, "plugin", "new", "x", "--lang", lang, "--dir", project)
		if _, code, err := run(t, "plugin", "build", project); code != exitNo || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: code %d, %v", lang, code, err)
		}
	}
}

func TestPlugin_use(t *testing.T) {
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"want go, c or rust":     {"new", "x", "--lang", "cobol", "--dir", filepath.Join(empty, "x")},
		"lower-case":             {"new", "My Scorer"},
		"no go.mod":              {"build", empty},
		"no such folder":         {"build", filepath.Join(empty, "x")},
		"not installed":          {"build", "../../examples/scorer-c", "--with", "cobol"},
		"plugin build creates":   {"check", filepath.Join(empty, "x.wasm")},
		"want 1 to 4096":         {"bench", "x.wasm", "-n", "0"},
		"--output yaml":          {"list", "--output", "yaml"},
		"beginning with a":       {"rollback", "../x"},
		"no such file or direct": {"check", "../../plugins/leastwork.wasm", "--config", "@/none"},
	} {
		if _, code, err := run(t, append([]string{"plugin"}, args...)...); code != exitUsage ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: code %d, %v, want %q", args, code, err, want)
		}
	}
}

// TestPlugin_check: the exit code is 1 and the failed checks are named.
func TestPlugin_check(t *testing.T) {
	good := write(t, "good.wasm", code(t, "leastwork"))
	out := mustRun(t, "plugin", "check", good, "--config", `{"objective":"ttft"}`)
	if strings.Contains(out, "FAIL") || !strings.Contains(out, "leastwork") {
		t.Error(out)
	}
	all, err := guests.All()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, g := range all {
		want := map[string]string{"spin": "score: sizes", "unknown_import": "load",
			"column_overwrite": "score: overwrite"}[strings.TrimSuffix(g.File, ".wat")]
		if want == "" {
			continue
		}
		seen++
		b, err := g.Code()
		if err != nil {
			t.Fatal(err)
		}
		out, code, err := run(t, "plugin", "check", write(t, "bad.wasm", b), "--calls", "20")
		if code != exitNo || !strings.Contains(out, "FAIL "+want) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: code %d, %v\n%s", g.File, code, err, out)
		}
	}
	if seen != 3 {
		t.Errorf("%d guests tried, want 3", seen)
	}
}

// TestPlugin_sign: what keygen prints is a configuration that takes what sign
// signed.
func TestPlugin_sign(t *testing.T) {
	dir := t.TempDir()
	key, file := filepath.Join(dir, "key.pem"), write(t, "x.wasm", code(t, "leastwork"))
	out := mustRun(t, "plugin", "keygen", key, "--name", "ops")
	_, yaml, _ := strings.Cut(out, "\n\n")
	yaml, _, ok := strings.Cut(yaml, "\n\n")
	cfg, err := config.Parse("f", []byte("listen: 127.0.0.1:1\nidentity: {anonymous: {tenant: a}}\npools: [{name: p, "+
		"endpoints: [\"http://h:1\"]}]\nmodels: [{name: m, pools: [p]}]\n"+yaml+"\n"),
		func(string) (string, bool) { return "", false })
	if !ok || err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := mustRun(t, "plugin", "sign", file, "--key", key); !strings.Contains(out, "signed by key ") {
		t.Error(out)
	}
	signed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if names, err := cfg.Signatures.Trust().Verify(signed); err != nil || len(names) != 1 || names[0] != "ops" {
		t.Errorf("%q, %v", names, err)
	}
	if out := mustRun(t, "plugin", "check", file, "--calls", "20"); !strings.Contains(out,
		"(not verified) by key "+plugsign.KeyID(cfg.Signatures.Trust().Keys[0].Public)) {
		t.Error(out)
	}
	for want, args := range map[string][]string{
		"never overwritten":        {"keygen", key},
		"already signed":           {"sign", file, "--key", key},
		"not a WebAssembly module": {"sign", key, "--key", key},
	} {
		if _, code, err := run(t, append([]string{"plugin"}, args...)...); code != exitNo ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: code %d, %v, want %q", args, code, err, want)
		}
	}
	for want, args := range map[string][]string{"missing --key": {"sign", file},
		"no such file": {"sign", file, "--key", "/none"}} {
		if _, code, err := run(t, append([]string{"plugin"}, args...)...); code != exitUsage ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: code %d, %v, want %q", args, code, err, want)
		}
	}
}

func TestPlugin_bench(t *testing.T) {
	var r benched
	out := mustRun(t, "plugin", "bench", write(t, "x.wasm", code(t, "leastwork")), "--output", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Name != "leastwork" || r.Role != "score" || r.Candidates != 64 || r.CallNS <= 0 || r.NativeNS <= 0 ||
		r.Fuel <= 0 || r.Budget < r.Fuel {
		t.Errorf("%+v", r)
	}
}

func code(t *testing.T, name string) []byte {
	t.Helper()
	b, err := plugins.Code(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPlugin_admin: what is asked of a router, and what is made of its answers.
func TestPlugin_admin(t *testing.T) {
	var asked []string
	var body bytes.Buffer
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization"))
		switch {
		case r.Method == "GET":
			w.Write([]byte(`{"plugins":[{"name":"mine","digest":"bbbb","version":"1.2","signer":"release","source":"stored",` +
				`"roles":["score"],"state":"active","stats":{"Calls":7,"Faults":{"trap":1,"fuel":2},"call_us":1.5002},` +
				`"active":"bbbb","previous":"aaaa","versions":[{"digest":"aaaa","bytes":5,"stored":"2026-01-02T03:04:05Z"},` +
				`{"digest":"bbbb","bytes":6,"stored":"2026-01-02T03:04:05Z"},{"digest":"cccc","bytes":6,` +
				`"stored":"2026-01-02T03:04:05Z"}],"shadow":{"digest":"cccc","decisions":40,"rank_agreement":0.75,` +
				`"placed_elsewhere":0.125,"faults":3}}]}`))
		case strings.HasSuffix(r.URL.Path, "/none/rollback"):
			w.WriteHeader(http.StatusConflict)
			w.Write([]byte(`{"error":{"message":"no version was active before"}}`))
		default:
			body.Reset()
			body.ReadFrom(r.Body)
			q := r.URL.Query()
			fmt.Fprintf(w, `{"digest":"0123456789abcdef","active":%t,"used":true,"shadow":%t}`,
				q.Has("activate"), q.Has("shadow"))
		}
	}))
	defer srv.Close()
	t.Setenv("KVASIR_ADMIN", srv.URL)
	t.Setenv("KVASIR_TOKEN", "secret")
	file := write(t, "x.wasm", code(t, "roundrobin"))
	if out := mustRun(t, "plugin", "push", file, "--activate"); !strings.HasPrefix(out,
		"roundrobin 0123456789ab: active") || !bytes.Equal(body.Bytes(), code(t, "roundrobin")) {
		t.Errorf("%s, %d bytes", out, body.Len())
	}
	if out := mustRun(t, "plugin", "push", file, "--name", "mine"); !strings.Contains(out, "not active") {
		t.Error(out)
	}
	if out := mustRun(t, "plugin", "push", file, "--name", "mine", "--shadow"); !strings.Contains(out, "without effect") {
		t.Error(out)
	}
	if _, _, err := run(t, "plugin", "push", file, "--shadow", "--activate"); err == nil {
		t.Error("both a shadow and active")
	}
	if out := mustRun(t, "plugin", "unshadow", "mine"); !strings.Contains(out, "no shadow") {
		t.Error(out)
	}
	out := mustRun(t, "plugin", "rollback", "mine", "--output", "json")
	if !strings.Contains(out, `"digest": "0123456789abcdef"`) {
		t.Error(out)
	}
	if _, code, err := run(t, "plugin", "rollback", "none"); code != exitNo ||
		err.Error() != "no version was active before" {
		t.Errorf("code %d, %v", code, err)
	}
	lines := strings.Split(mustRun(t, "plugin", "list"), "\n")
	if got := strings.Join(strings.Fields(lines[2]),
		" "); got != "cccc shadow: rank agreement 0.750, 12.5 % placed elsewhere 40 3" {
		t.Errorf("%q", got)
	}
	if len(lines) != 5 || strings.Join(strings.Fields(lines[1]),
		" ") != "mine bbbb 1.2 stored, signed by release score active 7 3 1.5µs" || !strings.Contains(lines[3],
		"aaaa") || !strings.Contains(lines[3], "target of rollback") {
		t.Errorf("%q", lines)
	}
	want := []string{"POST /v1/plugins?activate=true&name=roundrobin Bearer secret",
		"POST /v1/plugins?name=mine Bearer secret",
		"POST /v1/plugins?name=mine&shadow=true Bearer secret", "DELETE /v1/plugins/mine/shadow Bearer secret",
		"POST /v1/plugins/mine/rollback Bearer secret", "POST /v1/plugins/none/rollback Bearer secret",
		"GET /v1/plugins Bearer secret"}
	if got := strings.Join(asked, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("asked\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if _, code, err := run(t, "plugin", "push", write(t, "x", []byte("no wasm"))); code != exitNo ||
		!strings.Contains(err.Error(), "module") {
		t.Errorf("no module: code %d, %v", code, err)
	}
	srv.Close()
	if _, code, _ := run(t, "plugin", "list"); code != exitUnreachable {
		t.Errorf("no router: code %d", code)
	}
}
