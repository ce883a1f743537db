package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
)

// driverScript is a driver. The file "mode" selects how its first two orders fail, and
// "machines" lists the machines that it can start. It appends each request to "asked" and
// writes the size to "have".
const driverScript = `#!/bin/sh
cd "$1"; q=$(cat); echo "$q" >> asked
case "$q" in
*'"op":"apply"'*)
	mode=$(cat mode); if [ $(wc -l < failed) -ge 2 ]; then mode=good; fi
	case "$mode" in
	hang) echo >> failed; sleep 600;;
	fail) echo >> failed; echo "no quota" >&2; exit 1;;
	twice) echo >> failed; echo '{"machines": []}{"machines": []}'; exit 0;;
	esac
	echo "$q" | sed 's/.*"desired":\([0-9]*\).*/\1/' > have;;
esac
n=$(cat have) i=0 sep=
printf '{"machines": ['
while read -r m && [ $i -lt $n ]; do printf '%s%s' "$sep" "$m"; sep=,; i=$((i+1)); done < machines
echo ']}'
`

// scaled is a running router with a pool that a script scales.
type scaled struct {
	*Host
	t    *testing.T
	dir  string
	reqs atomic.Int64 // requests that the engine answered
}

// runScaled runs a router. The last machine that its driver lists is a real server; the
// fakes precede it.
func runScaled(t *testing.T, autoscaling, mode string, fakes ...string) *scaled {
	t.Helper()
	s := &scaled{t: t, dir: t.TempDir()}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/models" {
			io.WriteString(w, `{"object": "list", "data": [{"id": "m", "object": "model"}]}`)
			return
		}
		s.reqs.Add(1)
		io.WriteString(w, `{"id": "c", "object": "chat.completion", "model": "m", "choices": [`+
			`{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]}`)
	}))
	t.Cleanup(engine.Close)
	machines := strings.Join(append(fakes, fmt.Sprintf(`{"id": "real", "url": %q}`, engine.URL)), "\n") + "\n"
	for name, text := range map[string]string{"machines": machines, "mode": mode, "have": "0", "asked": "", "failed": ""} {
		save(t, filepath.Join(s.dir, name), text)
	}
	script := filepath.Join(s.dir, "driver.sh")
	if err := os.WriteFile(script, []byte(driverScript), 0o700); err != nil {
		t.Fatal(err)
	}
	timeout := "10s" // enough for the programs of the script on a busy machine
	if mode == "hang" {
		timeout = "2s"
	}
	file := filepath.Join(s.dir, "kvasir.yaml")
	save(t, file, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {http: \"127.0.0.1:0\"}\n"+
		"identity: {anonymous: {tenant: local}}\nstate_dir: %s\n"+
		"pools:\n- name: main\n  dialect: openai\n  autoscale: {%s, driver: {command: [%q, %q], timeout: %s}}\n"+
		"models: [{name: m, pools: [main]}]\n", t.TempDir(), autoscaling, script, s.dir, timeout))
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if s.Host, err = New(cfg, Options{Log: slog.New(slog.DiscardHandler), ScaleEvery: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	return s
}

func (s *scaled) ask() {
	s.t.Helper()
	resp, err := http.Post("http://"+s.Addr()+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model": "m", "messages": [{"role": "user", "content": "hello"}]}`))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 {
		s.t.Errorf("a request failed: %d %s", resp.StatusCode, b)
	}
}

func (s *scaled) file(name string) []byte {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// orders returns the requests with op "apply".
func (s *scaled) orders() []autoscale.Order {
	var out []autoscale.Order
	for line := range bytes.Lines(s.file("asked")) {
		var q struct {
			Op string
			autoscale.Order
		}
		if err := json.Unmarshal(line, &q); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		if q.Op == "apply" {
			out = append(out, q.Order)
		}
	}
	return out
}

func (s *scaled) await(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not in time: %s; the driver received %s", what, s.file("asked"))
		}
	}
}

func (s *scaled) status() autoscale.PoolStatus {
	for _, g := range s.scaling.Statuses() {
		if len(g.Pools) > 0 {
			return g.Pools[0]
		}
	}
	return autoscale.PoolStatus{}
}

// TestHost_driver checks that a request waits for the first machine of a driver that
// fails twice and then works. The driver receives one order, with one key, at growing
// intervals.
func TestHost_driver(t *testing.T) {
	for _, mode := range []string{"hang", "fail", "twice"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := runScaled(t, "max: 3", mode)
			s.ask()
			orders := s.orders()
			for _, o := range orders {
				if o.Desired != 1 || o.Key != orders[0].Key {
					t.Errorf("orders %+v, want one of one machine", orders)
				}
			}
			if n := len(orders); n != 3 {
				t.Errorf("sent %d times, want 3", n)
			}
			if p := s.status(); p.DriverErrors != 2 {
				t.Errorf("%d errors counted, want 2", p.DriverErrors)
			}
			if s.reqs.Load() != 1 {
				t.Errorf("the engine had %d requests", s.reqs.Load())
			}
		})
	}
}

// TestHost_driverLies checks that machines outside the allow-list, and machines without
// an engine, do not prevent requests from reaching the machine with an engine.
func TestHost_driverLies(t *testing.T) {
	t.Parallel()
	s := runScaled(t, "min: 3, max: 3", "good", `{"id": "away", "url": "http://10.9.9.9:80"}`,
		`{"id": "dead", "url": "http://127.0.0.1:1"}`)
	s.ask()
	s.await("the complaint", func() bool { return strings.Contains(s.status().DriverError, "driver.allow") })
	for range 20 {
		s.ask()
	}
	if got := urls(s.Host); strings.Contains(got, "10.9.9.9") {
		t.Errorf("endpoints %s", got)
	}
	for _, o := range s.orders() {
		if o.Desired > 3 {
			t.Errorf("%d machines ordered, at most 3 may be", o.Desired)
		}
	}
}

// TestHost_reloadsScaled checks that machines survive changes of other sections, of
// their pool's scaling settings, and of whether the pool is scaled at all. They are
// removed with their pool. No machine is ordered again.
func TestHost_reloadsScaled(t *testing.T) {
	t.Parallel()
	s := runScaled(t, "min: 1, max: 1", "good")
	s.ask()
	life := s.store.Load().Info(0).Epoch
	lists := func() int { return bytes.Count(s.file("asked"), []byte(`"op":"list"`)) }
	change := func(from, to string) {
		t.Helper()
		src := string(s.file("kvasir.yaml"))
		if !strings.Contains(src, from) {
			t.Fatalf("no %q in %s", from, src)
		}
		save(t, filepath.Join(s.dir, "kvasir.yaml"), strings.Replace(src, from, to, 1))
		if _, err := s.Reload(); err != nil {
			t.Fatal(err)
		}
		s.ask()
		if info := s.store.Load().Info(0); info == nil || info.Epoch != life {
			t.Errorf("%s → %s: the machine is %+v", from, to, info)
		}
	}
	change("{name: m, pools: [main]}", "{name: m, aliases: [n], pools: [main]}")
	before := lists()
	change("max: 1", "max: 1, cold_start: 90s")
	s.await("the list of its successor", func() bool { return lists() > before && s.status().Ready == 1 })
	change("min: 1", "dry_run: true, min: 1")
	change("autoscale", "labels: {}\n  autoscale")
	src := string(s.file("kvasir.yaml"))
	i, j := strings.Index(src, "  autoscale:"), strings.Index(src, "models:")
	change(src[i:j], "  endpoints: [\"http://127.0.0.1:1\"]\n")
	orders := s.orders()
	if len(orders) != 1 {
		t.Errorf("orders %+v, want the first", orders)
	}
	save(t, filepath.Join(s.dir, "kvasir.yaml"), strings.ReplaceAll(strings.ReplaceAll(string(s.file("kvasir.yaml")),
		"name: main", "name: other"), "[main]", "[other]"))
	if _, err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := urls(s.Host); got != "http://127.0.0.1:1" {
		t.Errorf("endpoints without the pool: %s", got)
	}
}
