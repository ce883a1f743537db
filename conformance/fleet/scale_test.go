package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// scaleState is the state that the admin API reports for the only group of kvasir dev.
type scaleState struct {
	Desired  int    `json:"desired"`
	Fault    string `json:"override_fault"`
	Faults   int    `json:"override_faults"`
	Shadow   bool
	Override *struct {
		Desired    int
		Reason, By string
	}
	Pools []struct {
		Ready, Pending, Draining int
		Machines                 []struct {
			ID, Drain string
			InFlight  int `json:"inflight"`
		}
	}
	Actions []struct {
		Verb, Reason string
		N            int
	}
}

func scaling(t testing.TB, d *harness.Dev) *scaleState {
	t.Helper()
	status, b := harness.GetBody(d.Admin+"/v1/autoscale", d.AdminToken)
	var all []scaleState
	if status != 200 || json.Unmarshal(b, &all) != nil || len(all) != 1 || len(all[0].Pools) != 1 {
		t.Fatalf("GET /v1/autoscale: %d %s", status, b)
	}
	return &all[0]
}

// machines returns the number of the driver's engine processes.
func machines(t testing.TB, d *harness.Dev) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(d.StateDir, "machines", "machines.json"))
	if err != nil {
		return 0
	}
	var s struct{ Machines []json.RawMessage }
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return len(s.Machines)
}

// alerts checks that every series of examples/alerts is served.
func alerts(t *testing.T, d *harness.Dev) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "examples", "alerts", "kvasir.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, served := harness.GetBody(d.Admin+"/metrics", d.AdminToken)
	n := 0
	for line := range strings.Lines(string(b)) {
		if _, expr, ok := strings.Cut(line, "expr: "); ok {
			for _, name := range regexp.MustCompile(`kvasir_[a-z_]+`).FindAllString(expr, -1) {
				n++
				if !strings.Contains(string(served), "# TYPE "+name+" ") {
					t.Errorf("an alert names %s, which is not served", name)
				}
			}
		}
	}
	if n < 15 {
		t.Errorf("%d series in the alerts", n)
	}
}

// notice announces the removal of an endpoint during a stream. The stream continues to
// its end, and another engine answers requests that arrive meanwhile.
func notice(t *testing.T, d *harness.Dev, ask func(user string, stream bool, tokens int)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		ask("a stream that outlives its notice", true, 600)
		close(done)
	}()
	id := ""
	harness.Await(t, 20*time.Second, "the stream", func() bool {
		for _, m := range scaling(t, d).Pools[0].Machines {
			if m.InFlight > 0 {
				id = m.ID
			}
		}
		return id != ""
	})
	a, err := harness.Post(d.Admin+"/v1/autoscale/notice", d.AdminToken, map[string]string{"pool": "main", "endpoint": id})
	if err != nil || a.Status != 200 {
		t.Fatalf("notice: %v %d %s", err, a.Status, a.Body)
	}
	harness.Await(t, 10*time.Second, "the drain", func() bool {
		for _, m := range scaling(t, d).Pools[0].Machines {
			if m.ID == id {
				return m.Drain == "no_requests"
			}
		}
		return false
	})
	ask("meanwhile", false, 4)
	<-done
	harness.Await(t, 20*time.Second, "the removal of the announced endpoint", func() bool {
		for _, m := range scaling(t, d).Pools[0].Machines {
			if m.ID == id {
				return false
			}
		}
		return true
	})
}

// TestAutoscale runs a whole cycle: no engine runs, a request starts the first one, load
// starts more, and idle time removes them one after the other while streams continue,
// until none is left. No request may fail.
func TestAutoscale(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--autoscale", "--cold-start", "1s", "--idle-after", "6s", "--engines", "3")
	if n := machines(t, d); n != 0 {
		t.Fatalf("%d engines before the first request", n)
	}
	var failed, asked atomic.Int64
	ask := func(user string, stream bool, tokens int) {
		asked.Add(1)
		body := chatBody(d.Model, "Answer.", user, stream, tokens)
		body["ignore_eos"] = true // generate max_tokens tokens
		a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants["acme"], body)
		switch {
		case err != nil:
			failed.Add(1)
			t.Errorf("a request failed: %v", err)
		case a.Status != 200 || stream && !strings.Contains(string(a.Body), "[DONE]"):
			failed.Add(1)
			t.Errorf("a request failed: %d %.300s", a.Status, a.Body)
		}
	}
	began := time.Now()
	ask("wake up", false, 4)
	t.Logf("from no engine to the first answer: %v", time.Since(began))

	// Load: prompts that no engine has computed.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for c := range 24 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				ask(fmt.Sprintf("%d %d %s", c, i, strings.Repeat(fmt.Sprintf("number %d of %d. ", i, c), 250)), i%2 == 0, 24)
			}
		})
	}
	harness.Await(t, 60*time.Second, "a second engine", func() bool { return scaling(t, d).Pools[0].Ready >= 2 })
	// Streams that outlive the load, so that drains meet them.
	for c := range 6 {
		wg.Go(func() { ask(fmt.Sprint("a long answer ", c), true, 1200) })
	}
	close(stop)
	harness.Await(t, 90*time.Second, "one engine", func() bool {
		s := scaling(t, d)
		return s.Pools[0].Ready <= 1 && s.Pools[0].Draining == 0 && s.Pools[0].Pending == 0
	})
	wg.Wait()
	harness.Await(t, 60*time.Second, "no engine", func() bool { return machines(t, d) == 0 })
	began = time.Now()
	ask("wake up again", true, 4)
	t.Logf("%d requests, %d failed; first answer after the next start in %v", asked.Load(), failed.Load(),
		time.Since(began))
	notice(t, d, ask)
	alerts(t, d)
	verbs := map[string]int{}
	for _, a := range scaling(t, d).Actions {
		verbs[a.Verb] += a.N
	}
	if verbs["order"] == 0 || verbs["drain"] == 0 || verbs["remove"] == 0 {
		t.Errorf("actions %v", verbs)
	}
}
