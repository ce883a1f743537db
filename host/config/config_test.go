package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func noEnv(string) (string, bool) { return "", false }

const minimal = `listen: 127.0.0.1:8080
identity: {anonymous: {tenant: local}}
pools: [{name: main, endpoints: ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]}]
models: [{name: qwen3-8b, pools: [main], tokenizer: {dir: .}}]
`

func TestParse_minimal(t *testing.T) {
	c, err := Parse("kvasir.yaml", []byte(minimal), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen.HTTP != "127.0.0.1:8080" || c.Listen.MaxBody != 64<<20 {
		t.Errorf("listen = %+v", c.Listen)
	}
	p := c.Pools[0]
	if p.Dialect != "vllm" || p.Events.Mode != "auto" || time.Duration(p.Timeouts.FirstByte) != 10*time.Minute ||
		p.BlockTokens != 0 {
		t.Errorf("pool = %+v", p)
	}
	if m := c.Models[0]; m.Pools[0] != (ModelPool{Name: "main", ServedAs: "qwen3-8b", Weight: 1}) {
		t.Errorf("model = %+v", m)
	}
	if len(c.Profiles) != 1 || *c.Profiles[0].Holdout != 0.005 {
		t.Errorf("profiles = %+v", c.Profiles)
	}
}

func TestParse_values(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	src := `listen: {http: ":8080", max_body: 8 MiB}
admin: {http: "${ADMIN}"}
identity: {anonymous: {tenant: a}}
pools:
- name: p
  endpoints: ["http://h:1"]
  labels: {region: eu}
  block_tokens: 32
  credentials: {bearer_file: ` + token + `}
  timeouts: {first_byte: 90s}
models:
- name: m
  aliases: [n]
  pools: [{name: p, served_as: org/m, weight: 0.5}]
profiles: [{name: d, holdout: 0, envelope: {slack_tokens: 5}, conversations: {hold_tokens: 0}}]
limits: {index: 1GiB}
`
	c, err := Parse("f", []byte(src), func(k string) (string, bool) { return "127.0.0.1:99", k == "ADMIN" })
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen.MaxBody != 8<<20 || c.Admin.HTTP != "127.0.0.1:99" || c.Limits.Index != 1<<30 {
		t.Errorf("c = %+v", c)
	}
	if p := c.Pools[0]; p.BlockTokens != 32 || p.Labels["region"] != "eu" ||
		time.Duration(p.Timeouts.FirstByte) != 90*time.Second {
		t.Errorf("pool = %+v", p)
	}
	if *c.Profiles[0].Holdout != 0 || *c.Profiles[0].Envelope.SlackTokens != 5 ||
		*c.Profiles[0].Conversations.HoldTokens != 0 || c.Profiles[0].Conversations.SpreadTokens != nil {
		t.Errorf("profile = %+v", c.Profiles[0])
	}
}

func TestParse_plugins(t *testing.T) {
	c, err := Parse("f", []byte(minimal+`plugins: [{name: mine, file: config.go, grants: [log], config: {a: 1, b: [x,
  2.5, true, null], c: {d: "5"}}}]
profiles: [{name: d, scorers: [{plugin: mine, config: {k: v}}, {plugin: leastwork, weight: 0.5}], filters: [mine],
 picker: mine}]
`), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Plugins[0]; p.Config != `{"a":1,"b":["x",2.5,true,null],"c":{"d":"5"}}` || p.Limits.Memory != 16<<20 ||
		p.Grants[0] != "log" {
		t.Errorf("plugin = %+v", p)
	}
	p := c.Profiles[0]
	if p.Scorers[0] != (Scorer{Plugin: "mine", Weight: 1, Config: `{"k":"v"}`}) || p.Scorers[1].Weight != 0.5 ||
		p.DefaultScorers || p.Picker != "mine" {
		t.Errorf("profile = %+v", p)
	}
}

// TestParse_absent: a plugin's file that does not exist is listed in Absent with its
// line, and is not an error.
func TestParse_absent(t *testing.T) {
	c, err := Parse("f.yaml", []byte(minimal+"plugins:\n- {name: a, file: config.go}\n- {name: b, file: /nope}\n- "+
		"{name: c, file: .}\n"), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Absent.Error(); !strings.HasPrefix(got, "f.yaml:7: plugins[1].file: stat /nope") ||
		!strings.Contains(got, "f.yaml:8: plugins[2].file: . is a directory") || len(c.Absent) != 2 {
		t.Errorf("got %s", got)
	}
}

// TestParse_scorers: a profile that names no scorers has the shipped plugin.
func TestParse_scorers(t *testing.T) {
	c, err := Parse("f", []byte(minimal+"profiles: [{name: a}, {name: b, normalize: rank, scorers: [{builtin: "+
		"roundrobin, required: true}]}]\n"), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	a, b := &c.Profiles[0], &c.Profiles[1]
	if !a.DefaultScorers || len(a.Scorers) != 1 || a.Scorers[0] != (Scorer{Plugin: "leastwork", Weight: 1}) {
		t.Errorf("got %+v", a)
	}
	if b.DefaultScorers || len(b.Scorers) != 1 ||
		b.Scorers[0] != (Scorer{Builtin: "roundrobin", Weight: 1, Required: true}) ||
		b.Normalize != "rank" || a.Normalize != "off" ||
		b.Scorers[0].Name() != "roundrobin" {
		t.Errorf("got %+v", b)
	}
}

func TestParse_errors(t *testing.T) {
	for name, tc := range map[string]struct {
		src  string
		want []string // the error contains each
	}{
		"unknown key": {minimal + "lissten: x\n", []string{
			"kvasir.yaml:5: lissten: unknown key; did you mean \"listen\"?"}},
		"nested unknown": {strings.Replace(minimal, "{name: main,", "{name: main, endpoint: x,", 1),
			[]string{"kvasir.yaml:3: pools[0].endpoint: unknown key; did you mean \"endpoints\"?"}},
		"all at once": {"listen: nowhere\npools: [{name: a, endpoints: [\"ftp://x\"], dialect: foo}]\nmodels: [{name: m, " +
			"pools: [b]}]\n", []string{
			":1: listen: want host:port",
			":2: pools[0].dialect: want one of vllm, sglang, llamacpp, ollama, openai, got \"foo\"",
			":2: pools[0].endpoints[0]: invalid endpoint URL \"ftp://x\": want http://",
			":3: models[0].pools[0]: unknown pool \"b\"", "identity: no authentication method"}},
		"unit": {minimal + "limits: {index: 64MB}\n",
			[]string{"kvasir.yaml:5: limits.index: want a size such as 512KiB"}},
		"time": {strings.Replace(minimal, "{name: main,", "{name: main, timeouts: {connect: 2},", 1),
			[]string{"pools[0].timeouts.connect: want a duration such as 30s"}},
		"duplicate": {minimal + "limits: {index: 1MiB, index: 2MiB}\n", []string{"index"}},
		"env": {strings.Replace(minimal, "tenant: local", `tenant: "${NOPE}"`, 1),
			[]string{"environment variable NOPE is not set"}},
		"not a list": {strings.Replace(minimal, "pools: [main]", "pools: main", 1),
			[]string{"models[0].pools: want a list"}},
		"not yaml": {"a: [", []string{"not YAML"}},
		"empty":    {"", []string{"want one YAML document"}},
		"endpoint twice": {strings.Replace(minimal, "10.0.0.2", "10.0.0.1", 1),
			[]string{"pools[0].endpoints[1]: duplicate endpoint http://10.0.0.1:8000: already in pool \"main\""}},
		"no such plugin": {minimal + "profiles:\n- name: a\n  scorers:\n  - plugin: nope\n  filters: [no]\n  picker: none\n",
			[]string{
				`kvasir.yaml:8: profiles[0].scorers[0].plugin: unknown plugin "nope"`,
				`:9: profiles[0].filters[0]: unknown plugin "no"`, `:10: profiles[0].picker: unknown plugin "none"`}},
		"bad scorers": {minimal + "profiles:\n- name: a\n  scorers:\n  - {plugin: leastwork}\n  - {builtin: leastwork}\n  " +
			"- {plugin: roundrobin, builtin: roundrobin}\n  - {builtin: mine}\n- name: b\n  scorers: [{weight: 2}, {builtin: " +
			"roundrobin, config: {}, required: yes}]\n  normalize: softmax\n", []string{
			`:9: profiles[0].scorers[1]: duplicate scorer "leastwork"`,
			":10: profiles[0].scorers[2]: want either plugin or builtin",
			":11: profiles[0].scorers[3].builtin: want one of leastwork",
			":13: profiles[1].scorers[0]: want either", ":13: profiles[1].scorers[1].config: config is not allowed with builtin",
			":13: profiles[1].scorers[1].required: want true or false",
			":14: profiles[1].normalize: want one of off, minmax, rank"}},
		"bad plugin": {minimal + "plugins:\n- {name: X, file: /nope, grants: [net]}\n- {name: a, config: 3, limits: " +
			"{memory: 1GiB}}\n- {name: a}\n", []string{
			":7: plugins[1].config: want a mapping"}},
		"signatures without keys": {minimal + "plugin_signatures: {required: true}\n",
			[]string{":5: plugin_signatures: required: true without keys"}},
		"bad keys": {minimal + "plugin_signatures:\n  keys:\n    A: \"ed25519:AAAA\"\n    b: \"ed25519:AAAA\"\n", []string{
			":7: plugin_signatures.keys.A: want a name of lower-case", ":7: plugin_signatures.keys.A: want a public key",
			":8: plugin_signatures.keys.b: duplicate key: already named A"}},
		"bad plugins": {minimal + "plugins:\n- {name: X, file: /nope, grants: [net]}\n- {name: a, limits: {memory: " +
			"1GiB}}\n- {name: a}\n", []string{
			":6: plugins[0].name: want lower-case", ":6: plugins[0].grants[0]: want one of log",
			":7: plugins[1].limits.memory: want at most 64MiB", `:8: plugins[2].name: duplicate plugin name "a"`}},
		"peers": {strings.Replace(minimal, "{anonymous: {tenant: local}}",
			"{anonymous: {tenant: local}, mtls: [{san: a.example, tenant: t}], trusted_proxies: [{networks: [10.0.0.0/8], "+
				"sans: [p], tenant_header: x-tenant-id}]}", 1), []string{
			":2: identity.mtls: requires listen.tls.client_ca_file",
			":2: identity.trusted_proxies[0].sans: requires listen.tls.client_ca_file"}},
		"bad peers": {strings.Replace(minimal, "{anonymous: {tenant: local}}",
			"{anonymous: {tenant: local}, mtls: [{san: \"*.example\", tenant: t}], trusted_proxies: [{networks: [everywhere]}]}",
			1), []string{
			`mtls[0].san: "*.example": want the name of a certificate`,
			`trusted_proxies[0].networks: "everywhere": want a network`}},
		"decisions": {minimal + "telemetry: {decision_log: {sample_allow: 2}}\n",
			[]string{":5: telemetry.decision_log.file: missing"}},
		"bad delay": {minimal + "profiles: [{name: a, queue: {deadline: 1s, max_delay: 2s}}]\n", []string{
			"queue.max_delay: want more than 0s and at most the deadline of 1s"}},
		"bad ttl": {minimal + "profiles: [{name: a, sticky: {ttl: -1s}}]\n", []string{
			":5: profiles[0].sticky.ttl: want a duration such as 30s"}},
		"bad match": {minimal + "profiles: [{name: a, match: [{models: [x]}]}, {name: b, match: [{}, " +
			"{operations: [walk], labels: {l: []}}]}]\n", []string{
			"profiles[0].match: the first profile is the default", `unknown model "x"`, "match[0]: no condition",
			`unknown operation "walk"`, `label "l" has no values`}},
		"bad decisions": {minimal + "telemetry: {decision_log: {file: x, sample_allow: 2, mask: [user], max_size: 1KiB, " +
			"keep: 5000, sample_placements: -1}}\n", []string{
			"sample_allow: want a share", "sample_placements: want a share", `mask: "user": want a path under /input`,
			"max_size: want at least 1MiB",
			"keep: want at most 1000"}},
		"bad issuer": {strings.Replace(minimal, "{anonymous: {tenant: local}}",
			"{jwt: [{issuer: x, algorithms: [HS256], tenant: a, jwks_url: \"http://x/k\"}]}", 1), []string{
			":2: identity.jwt[0]: missing audience", `:2: identity.jwt[0]: algorithm "HS256": want one of RS256`,
			`:2: identity.jwt[0]: jwks_url "http://x/k": want https`}},
		"plugins of pools": {strings.Replace(minimal, "{name: main,", "{name: main, autoscale: {max: 2, plugin: nope},",
			1), []string{`:3: pools[0].autoscale.plugin: unknown plugin "nope"`}},
		"shadow of nothing": {strings.Replace(minimal, "{name: main,", "{name: main, autoscale: {max: 2, shadow: true},",
			1), []string{"pools[0].autoscale.shadow: requires plugin"}},
		"plugin of no size": {strings.Replace(minimal, "{name: main,", "{name: main, autoscale: {plugin: leastwork},", 1),
			[]string{"pools[0].autoscale.max: missing"}},
		"plugin of an overflow": {strings.Replace(minimal, "pools: [",
			"pools: [{name: spot, autoscale: {max: 2, overflow_of: main, plugin: leastwork}},", 1),
			[]string{`autoscale.plugin: not allowed with overflow_of`}},
		"alias clash": {strings.Replace(minimal, "{name: qwen3-8b,", "{name: qwen3-8b, aliases: [qwen3-8b],", 1),
			[]string{`duplicate model name "qwen3-8b"`}},
		"bad autoscale": {strings.Replace(minimal, "{name: main,",
			"{name: main, autoscale: {max: 1, max_held: 70000, max_hold: 2h, driver: {command: [x]}},", 1), []string{
			":3: pools[0].autoscale.max_held: want 0 to 65536", ":3: pools[0].autoscale.max_hold: want at most 1h"}},
		"endless autoscale": {strings.Replace(minimal, "{name: main,",
			"{name: main, autoscale: {max: 1, idle_after: 25h, cold_start: 99h, drain_timeout: 900h, warm_timeout: 2h, "+
				"driver: {command: [x], timeout: 100h}},", 1), []string{
			":3: pools[0].autoscale.idle_after: want at most 24h, got", "cold_start: want at most 1h,",
			"drain_timeout: want at most 24h,", "warm_timeout: want at most 1h,",
			":3: pools[0].autoscale.driver.timeout: want at most 10m, got"}},
		"autoscale of no size": {strings.Replace(minimal, "{name: main,",
			"{name: main, autoscale: {dry_run: true, target: 0.5},", 1), []string{":3: pools[0].autoscale.max: missing"}},
		"overflow of others": {strings.Replace(minimal, "pools: [",
			"pools: [{name: spot, autoscale: {max: 2, overflow_of: main, driver: {command: [x]}}},", 1),
			[]string{`:3: pools[0].autoscale.overflow_of: model "qwen3-8b" is served by pool "main" and not by its overflow ` +
				`"spot"`}},
		"parsers": {strings.Replace(minimal, "{name: main,",
			"{name: main, parser: {plugin: leastwork, metrics_path: stats, health_path: ping},", 1), []string{
			"pools[0].parser: requires dialect: openai", "parser.metrics_path: want a path such as /stats",
			"parser.health_path: want a path such as /ping"}},
		"parser of none": {strings.Replace(minimal, "{name: main,", "{name: main, parser: {metrics_path: /stats},", 1),
			[]string{"pools[0].parser.plugin: missing"}},
		"registries": {strings.Replace(minimal, "{name: main,", "{name: main, discover: {dns: x, port: 1, plugin: nope},", 1),
			[]string{
				"pools[0].discover.plugin: requires file", "pools[0].discover.allow: missing",
				`pools[0].discover.plugin: unknown plugin "nope"`}},
		"discover.allow": {strings.Replace(minimal, "{name: main,", "{name: main, discover: {file: x, allow: [\"a b\"]},", 1),
			[]string{"pools[0].discover.allow[0]: want a network"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("kvasir.yaml", []byte(tc.src), noEnv)
			if err == nil {
				t.Fatalf("no error, config %+v", c)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q:\n%v", w, err)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte("a: &x [*x]"))
	f.Add([]byte("pools: {a: [}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Parse("f", b, noEnv)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v, error %v", c, err)
		}
	})
}

// TestRead: a configuration whose key file does not exist yet can be read, and a file
// that is not a configuration cannot.
func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kvasir.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("state_dir: /s\nidentity: {api_keys_file: /nowhere/keys.json}\n")
	if c, err := Read(name); err != nil || c.StateDir != "/s" || c.Identity.APIKeysFile != "/nowhere/keys.json" ||
		c.Admin.HTTP == "" {
		t.Errorf("%v: %+v", err, c)
	}
	write("state_dri: /s\n")
	if _, err := Read(name); err == nil || !strings.Contains(err.Error(), "state_dri") {
		t.Errorf("got %v", err)
	}
}
