package host

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/config"
)

// TestCheck checks that Check reports, without a router, what a reload would refuse,
// and that it does not change the state of a running router.
func TestCheck(t *testing.T) {
	x := newLive(t)
	x.keyFile("keys.json", "acme")
	x.write("jwks.json", jwks(t, newSigner(t, "one")))
	for _, d := range []string{"policy/kvasir", "policy/data"} {
		mkdir(t, x.path(d))
	}
	writeNumbered(t, x.path("policy"), 1)
	x.write("secret", "a secret of enough characters\n")
	x.write("bearer", "token\n")
	x.write("mine.wasm", "no module")
	pool := "endpoints: [\"" + x.engine() + "\"], credentials: {bearer_file: " + x.path("bearer") +
		"}, autoscale: {max: 2, driver: {webhook: {url: \"https://driver.example\", secret_file: " + x.path("secret") + "}}}"
	sound := x.yaml("api_keys_file: "+x.path("keys.json")+", "+x.issuer("jwks.json"), pool,
		"policy: {dir: "+x.path("policy")+"}\n")
	x.write("kvasir.yaml", sound)
	x.start()
	check := func() error {
		cfg, err := config.Load(x.path("kvasir.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return Check(cfg, Options{})
	}
	before := contentsOf(t, x.path("state"))
	if err := check(); err != nil {
		t.Errorf("a sound configuration: %v", err)
	}
	for _, c := range []struct{ name, file, text, want string }{
		{"secret", "secret", "short", "at least 16 characters"},
		{"bearer", "bearer", "two\nlines", "one line"},
		{"keys", "keys.json", "{", "keys.json"},
		{"issuer's keys", "jwks.json", "{}", "jwks.json"},
		{"policy", "policy/kvasir/broken.rego", "package kvasir\n\nx {", "broken.rego:3"},
		{"plugin", "kvasir.yaml", strings.Replace(sound, "scorers: [{builtin: leastwork}]", "scorers: [{plugin: mine}]", 1) +
			"plugins: [{name: mine, file: " + x.path("mine.wasm") + "}]\n", "mine"},
		{"tokenizer", "kvasir.yaml",
			strings.Replace(sound, "pools: [main]}", "pools: [main], tokenizer: {dir: "+x.path("policy")+"}}", 1), "tokenizer"},
	} {
		was, err := os.ReadFile(x.path(c.file))
		x.write(c.file, c.text)
		if err := check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if err != nil {
			os.Remove(x.path(c.file))
		} else {
			x.write(c.file, string(was))
		}
	}
	if err := check(); err != nil {
		t.Errorf("sound again: %v", err)
	}
	after := contentsOf(t, x.path("state"))
	for name, text := range before {
		if after[name] != text && name != "audit.log" && !strings.HasPrefix(name, "wasm-cache") {
			t.Errorf("%s was changed", name)
		}
	}
}

// contentsOf returns the contents of all files below a directory, by path.
func contentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
