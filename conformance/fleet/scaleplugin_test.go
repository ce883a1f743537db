package fleet

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// The modules of TestScalePlugin.
const (
	scheduleModule = "../../examples/autoscale-schedule/autoscale_schedule.wasm"
	hostileModule  = "../guests/experimental/hostile.wasm"
)

// scaleRules writes the configuration of a running kvasir dev with a plugin for its
// pool. The router notices the change and reloads.
func scaleRules(t *testing.T, d *harness.Dev, before, file, autoscale string, hour int) string {
	t.Helper()
	module, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	hours := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%d,", hour), 24), ",")
	text := strings.Replace(before, "autoscale: {", "autoscale: {"+autoscale+", ", 1) +
		fmt.Sprintf("plugins: [{name: sched, file: %q, config: {hours: [%s], do: 1}}]\n", module, hours)
	if text == before {
		t.Fatalf("no autoscale section in\n%s", before)
	}
	if err := os.WriteFile(d.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestScalePlugin runs a plugin that sizes the pool of a fleet under load, swaps it,
// replaces it with one that traps, rolls back and makes it a shadow. Where the plugin
// fails, the built-in loop decides. The controller keeps its history, and no request
// fails.
func TestScalePlugin(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--autoscale", "--cold-start", "500ms", "--idle-after", "5m", "--engines", "4")
	r := &harness.Router{Admin: d.Admin, Token: d.AdminToken}
	before, err := os.ReadFile(d.Config)
	if err != nil {
		t.Fatal(err)
	}
	scaleRules(t, d, string(before), scheduleModule, "plugin: sched", 2)
	harness.Await(t, 30*time.Second, "two engines, before any request",
		func() bool { return scaling(t, d).Pools[0].Ready == 2 })
	if s := scaling(t, d); s.Override == nil || s.Override.Desired != 2 ||
		!strings.HasPrefix(s.Override.By, "sched 1.0.0 ") || !strings.HasPrefix(s.Override.Reason, "least size 2 of hour") {
		t.Errorf("override %+v", s.Override)
	}

	var failed, asked atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				asked.Add(1)
				a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants["acme"],
					chatBody(d.Model, "Answer.", fmt.Sprint(c, " ", i), i%2 == 0, 8))
				if err != nil || a.Status != 200 {
					failed.Add(1)
					t.Errorf("a request failed: %v %+v", err, a)
				}
			}
		})
	}
	push := func(code []byte) {
		t.Helper()
		if s, b := adminDo(t, r, "POST", "/v1/plugins?name=sched&activate=true", code); s != http.StatusOK {
			t.Fatalf("push: %d %s", s, b)
		}
	}
	code, err := os.ReadFile(scheduleModule)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // swaps under load
		next := append(append([]byte{}, code...), 0, 6, 1, 'n', byte(i), 2, 3, 4)
		push(next)
		harness.Await(t, 10*time.Second, "the pushed version proposes", func() bool {
			s := scaling(t, d)
			return s.Override != nil && strings.Contains(s.Override.By, digest(next)[:12])
		})
	}

	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=sched&activate=true",
		guest(t, "first", 0)); s != http.StatusUnprocessableEntity || !strings.Contains(string(b), "no role") {
		t.Errorf("a module without the role: %d %s", s, b)
	}
	hostile, err := os.ReadFile(hostileModule)
	if err != nil {
		t.Fatal(err)
	}
	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=sched&activate=true",
		hostile); s != http.StatusUnprocessableEntity || !strings.Contains(string(b), "wasm: check: x_autoscale") {
		t.Errorf("a module that the check refuses: %d %s", s, b)
	}
	// the router does not check files of the configuration
	scaleRules(t, d, string(before), hostileModule, "plugin: sched", 2)
	if s, b := adminDo(t, r, "DELETE", "/v1/plugins/sched", nil); s != http.StatusOK {
		t.Fatalf("deactivate: %d %s", s, b)
	}
	harness.Await(t, 10*time.Second, "the trap is reported",
		func() bool { return strings.Contains(scaling(t, d).Fault, "x_autoscale: trap") })
	harness.Await(t, 20*time.Second, "the quarantine",
		func() bool { return strings.Contains(scaling(t, d).Fault, "quarantine") })
	if s := scaling(t, d); s.Override != nil || s.Faults < 3 || s.Desired < 1 {
		t.Errorf("%+v", s)
	}
	if n := metric(t, r, "kvasir_autoscale_override_faults_total", `pool="main"`); n < 3 {
		t.Errorf("%v faults in the metrics", n)
	}
	if n := metric(t, r, "kvasir_plugin_faults_total", `reason="trap"`); n < 3 {
		t.Errorf("%v traps in the metrics", n)
	}
	if b, err := os.ReadFile(filepath.Join(d.StateDir, "audit.log")); err != nil ||
		!strings.Contains(string(b), "autoscale:override") {
		t.Error("the audit log lacks the fault")
	}

	if s, b := adminDo(t, r, "POST", "/v1/plugins/sched/rollback", nil); s != http.StatusOK {
		t.Fatalf("rollback: %d %s", s, b)
	}
	harness.Await(t, 10*time.Second, "the previous version proposes",
		func() bool { s := scaling(t, d); return s.Override != nil && s.Fault == "" })

	scaleRules(t, d, string(before), scheduleModule, "plugin: sched, shadow: true", 4)
	harness.Await(t, 10*time.Second, "both sizes are shown", func() bool {
		s := scaling(t, d)
		return s.Shadow && s.Override != nil && s.Override.Desired == 4 && s.Desired < 4
	})
	if s := scaling(t, d); len(s.Actions) == 0 || s.Actions[0].Verb != "order" || s.Pools[0].Ready > 3 {
		t.Errorf("the controller forgot what it did, or follows a shadow: %+v", s)
	}
	b, err := exec.Command(harness.Binary(t), "autoscale", "--admin", d.Admin, "--token", d.AdminToken).CombinedOutput()
	if out := string(b); err != nil || !strings.Contains(out, "would have 4 (least size 4 of hour") ||
		!strings.Contains(out, "in shadow, not followed") {
		t.Errorf("kvasir autoscale: %v\n%s", err, out)
	}
	close(stop)
	wg.Wait()
	t.Logf("%d requests, %d failed", asked.Load(), failed.Load())
}
