package config

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	const base = `listen: 127.0.0.1:8080
identity: {anonymous: {tenant: local}}
pools: [{name: main, endpoints: ["http://10.0.0.1:8000"], labels: {gpu: h100, region: eu}}]
models: [{name: m, pools: [main]}]
profiles: [{name: d, scorers: [{plugin: mine, config: {key: hush}}, {plugin: leastwork}], filters: [mine]}]
plugins: [{name: mine}, {name: extra}]
`
	parse := func(src string) *Config {
		t.Helper()
		c, err := Parse("f", []byte(src), noEnv)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	f := func(from, to string, want ...string) {
		t.Helper()
		a := parse(base)
		b := parse(strings.Replace(base, from, to, 1))
		if got := Diff(a, b); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s → %s:\ngot  %q\nwant %q", from, to, got, want)
		}
	}
	f("", "")
	f("{name: m, pools: [main]}", "{name: m, pools: [main]}, {name: n, pools: [main]}", "models[n]: added")
	f(", {name: extra}", "", "plugins[extra]: removed")
	f("gpu: h100, region: eu", "gpu: l4, zone: a", "pools[main].labels.gpu: h100 → l4",
		"pools[main].labels.region: removed", "pools[main].labels.zone: added")
	f(`"http://10.0.0.1:8000"`, `"http://10.0.0.2:8000"`,
		"pools[main].endpoints: [http://10.0.0.1:8000] → [http://10.0.0.2:8000]")
	f("{name: main,", "{name: main, price: 2, spot: true, timeouts: {total: 90s}, capacity: {max_inflight: 9},",
		"pools[main].price: 0 → 2", "pools[main].spot: false → true",
		"pools[main].capacity.max_inflight: 256 → 9", "pools[main].timeouts.total: 1h0m0s → 1m30s")
	f("key: hush", "key: hushed", "profiles[d].scorers[mine].config: changed")
	f("{plugin: leastwork}", "{builtin: roundrobin, weight: 2}", "profiles[d].scorers[leastwork]: removed",
		"profiles[d].scorers[roundrobin]: added")
	f("{name: d,", "{name: d, holdout: 0,", "profiles[d].holdout: 0.005 → 0")
	f("filters: [mine]", "filters: []", "profiles[d].filters: [mine] → []")
	f("listen: 127.0.0.1:8080", "listen: {http: 127.0.0.1:8080, tls: {}}\ntelemetry: {log_level: debug}",
		"telemetry.log_level: info → debug")
	for _, line := range Diff(parse(base), parse(strings.Replace(base, "hush", "secret", 1))) {
		if strings.Contains(line, "hush") || strings.Contains(line, "secret") {
			t.Errorf("%s contains a plugin's configuration", line)
		}
	}
}
