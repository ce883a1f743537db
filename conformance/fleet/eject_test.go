package fleet

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestEjected: an engine that is stopped holds no client. When its health check has
// failed, its requests without a byte move to another engine, those of streams whose
// head has come too, and the engine aborts them when it runs again.
func TestEjected(t *testing.T) {
	// Every step takes 0.8 s, so that requests are without a byte when it stops.
	es := startEngines(t, 2, "--step-ms", "800")
	r := serve(t, es, "{name: default, holdout: 0}")
	const n = 12
	var wg sync.WaitGroup
	var answers [n]*harness.Answer
	var errs [n]error
	begun := time.Now()
	for i := range n {
		wg.Go(func() {
			answers[i], errs[i] = harness.Post(r.URL+"/v1/chat/completions", "", fmt.Sprintf(
				`{"model":%q,"max_tokens":2,"stream":%v,"messages":[{"role":"user","content":"question %d of several"}]}`,
				es[0].Model, i%2 == 0, i))
		})
	}
	stopped := es[0]
	harness.Await(t, 10*time.Second, "requests on both engines", func() bool {
		return len(harness.SimRequests(t, es[0].URL)) >= 3 && len(harness.SimRequests(t, es[1].URL)) >= 3
	})
	stopped.Cmd.Process.Signal(syscall.SIGSTOP)
	defer stopped.Cmd.Process.Signal(syscall.SIGCONT)
	wg.Wait()
	if d := time.Since(begun); d > 40*time.Second {
		t.Errorf("clients were held for %v", d)
	}
	for i, a := range answers {
		switch {
		case errs[i] != nil || a.Status != 200:
			t.Errorf("request %d: %v, %+v", i, errs[i], a)
		case i%2 == 0 && (strings.Count(string(a.Body), "[DONE]") != 1 || strings.Contains(string(a.Body), `"error"`)):
			t.Errorf("stream %d: %.500s", i, a.Body)
		}
	}
	if v := metricOf(t, r, `kvasir_proxy_retries_total{cause="ejected"}`); v == "" || v == "0" {
		t.Errorf("%q requests moved", v)
	}
	stopped.Cmd.Process.Signal(syscall.SIGCONT)
	moved := 0
	harness.Await(t, 20*time.Second, "the resumed engine ends its requests", func() bool {
		moved = 0
		for _, q := range harness.SimRequests(t, stopped.URL) {
			if q.EndMS == 0 && !q.Aborted {
				return false
			}
			if q.Aborted {
				moved++
			}
		}
		return true
	})
	if moved == 0 {
		t.Error("the resumed engine computed the requests that had moved")
	}
}

// TestEjected_alone: without another engine a request waits for the stopped one.
func TestEjected_alone(t *testing.T) {
	e := startEngine(t, "--step-ms", "800")
	r := serve(t, []*engine{e}, "{name: default, holdout: 0}")
	done := make(chan *harness.Answer, 1)
	go func() {
		a, err := harness.Post(r.URL+"/v1/chat/completions", "", fmt.Sprintf(
			`{"model":%q,"max_tokens":2,"messages":[{"role":"user","content":"question"}]}`, e.Model))
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	harness.Await(t, 10*time.Second, "the request", func() bool { return len(harness.SimRequests(t, e.URL)) == 1 })
	e.Cmd.Process.Signal(syscall.SIGSTOP)
	defer e.Cmd.Process.Signal(syscall.SIGCONT)
	harness.Await(t, 30*time.Second, "the endpoint is not ready", func() bool { return !endpointOf(t, r, e.URL).Ready })
	time.Sleep(1500 * time.Millisecond) // one more failed check
	e.Cmd.Process.Signal(syscall.SIGCONT)
	select {
	case a := <-done:
		if a == nil || a.Status != 200 {
			t.Errorf("got %+v", a)
		}
	case <-time.After(20 * time.Second):
		t.Error("the resumed engine's answer does not arrive")
	}
}
