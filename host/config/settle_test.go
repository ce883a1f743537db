package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestReloadTags: each field has a reload tag, and no member of a list has the tag
// restart, because Settle cannot keep its value.
func TestReloadTags(t *testing.T) {
	var walk func(typ reflect.Type, path string, inList bool)
	walk = func(typ reflect.Type, path string, inList bool) {
		switch typ.Kind() {
		case reflect.Pointer:
			walk(typ.Elem(), path, inList)
		case reflect.Slice, reflect.Map:
			walk(typ.Elem(), path+"[]", true)
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				key := f.Tag.Get("yaml")
				if key == "-" {
					continue
				}
				at := join(path, key)
				switch tag := f.Tag.Get("reload"); {
				case tag != reloadLive && tag != reloadRestart:
					t.Errorf("%s: tag reload:%q of %s.%s: want reload:\"live\" (a reload puts a change in force) "+
						"or reload:\"restart\"", at, tag, typ.Name(), f.Name)
				case tag == reloadRestart && inList:
					t.Errorf("%s: waits for a restart within a list", at)
				}
				walk(f.Type, at, inList)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "", false)
}

// TestSettle: fields that require a restart keep the values of the running process and
// are reported; the others have the values of the file.
func TestSettle(t *testing.T) {
	parse := func(text string) *Config {
		t.Helper()
		c, err := Parse("kvasir.yaml", []byte(text), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const rest = "identity: {anonymous: {tenant: local}}\npools: [{name: main, endpoints: " +
		"[\"http://127.0.0.1:1\"]}]\nmodels: [{name: m, pools: [main]}]\n"
	boot := parse("listen: 127.0.0.1:80\n" + rest)
	next := parse("listen: {http: \"127.0.0.1:81\", max_body: 1MiB}\nadmin: {hosts: [router.example]}\nlimits: {index: " +
		"1GiB, concurrent: 7}\ntelemetry: {log_level: debug, tenant_labels: true, decision_log: {file: /x}}\n" + rest)
	was := *next
	got, waiting := Settle(boot, next)
	want := []string{"limits.index: 268435456 → 1073741824", "listen.http: 127.0.0.1:80 → 127.0.0.1:81",
		"telemetry.decision_log.file: \"\" → /x"}
	for _, w := range want {
		if !slices.Contains(waiting, w) {
			t.Errorf("%q lacks %q", waiting, w)
		}
	}
	if got.Listen.HTTP != "127.0.0.1:80" || got.Limits.Index != boot.Limits.Index ||
		got.Telemetry.DecisionLog.File != "" {
		t.Errorf("a change that requires a restart takes effect: %+v", got)
	}
	if got.Listen.MaxBody != 1<<20 || got.Limits.Concurrent != 7 || len(got.Admin.Hosts) != 1 ||
		!got.Telemetry.TenantLabels || got.Telemetry.LogLevel != "debug" {
		t.Errorf("a live change has no effect: %+v", got)
	}
	if !reflect.DeepEqual(was, *next) {
		t.Error("the configuration was changed")
	}
	if _, waiting := Settle(boot, parse("listen: 127.0.0.1:80\n"+rest)); len(waiting) != 0 {
		t.Errorf("nothing changed: got %q", waiting)
	}
}

// TestSettle_tls: the files of a certificate may change, but whether there is TLS takes a
// restart.
func TestSettle_tls(t *testing.T) {
	none, first, second := new(Config), new(Config), new(Config)
	first.Listen.TLS = TLS{CertFile: "a.pem", KeyFile: "a.key"}
	second.Listen.TLS = TLS{CertFile: "b.pem", KeyFile: "b.key"}
	f := func(boot, next *Config, want TLS, waiting int) {
		t.Helper()
		got, lines := Settle(boot, next)
		if got.Listen.TLS != want || len(lines) != waiting {
			t.Errorf("%+v and then %+v: got %+v and %q, want %+v and %d lines", boot.Listen.TLS, next.Listen.TLS,
				got.Listen.TLS, lines, want, waiting)
		}
	}
	f(first, second, second.Listen.TLS, 0)
	f(none, first, TLS{}, 2)
	f(first, none, first.Listen.TLS, 2)
	f(none, none, TLS{}, 0)
}

// TestParseIdentity: a valid section is returned even if the rest of the file is invalid.
func TestParseIdentity(t *testing.T) {
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.json")
	for text, want := range map[string]string{
		"identity: {api_keys_file: " + keys + "}\npools: 7\nbad: key\n":                keys,
		"identity: {api_keys_file: " + keys + "}\nlisten: [\n":                         "",
		"identity: {api_keys_file: " + keys + ", jwt: [{issuer: x}]}\n":                "",
		"identity: {api_keys_file: " + keys + ", mtls: [{san: \"*.x\", tenant: t}]}\n": "",
		"identity: {api_keys_files: x}\n":                                              "",
		"identity: {}\n":                                                               "",
		"listen: 127.0.0.1:80\n":                                                       "",
	} {
		got := ""
		if c := ParseIdentity([]byte(text), os.LookupEnv); c != nil {
			got = c.APIKeysFile
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", strings.TrimSpace(text), got, want)
		}
	}
}
