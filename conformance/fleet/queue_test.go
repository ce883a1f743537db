package fleet

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestQueue_burst sends a burst that is larger than the engines' caps together. The
// router refuses no request, places waiting requests as capacity becomes free, and
// explain reports the wait.
func TestQueue_burst(t *testing.T) {
	engines := startEngines(t, 2)
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}", "{name: default, holdout: 0}", "")
	limit(t, r, "capacity: {max_inflight: 2}")
	var wg sync.WaitGroup
	ids := make([]string, 24)
	for i := range ids {
		wg.Go(func() {
			a, err := harness.Post(r.URL+"/v1/chat/completions", "",
				chatBody(engines[0].Model, "You are brief.", fmt.Sprint(i), i%2 == 0, 8))
			if err != nil || a.Status != 200 {
				t.Errorf("%v %+v", err, a)
				return
			}
			ids[i] = a.RequestID
		})
	}
	wg.Wait()
	queued := 0
	for _, id := range ids {
		if id == "" {
			continue
		}
		_, b := harness.GetBody(r.Admin+"/v1/explain/"+id, r.Token)
		if strings.Contains(string(b), `"queued_ms":`) {
			queued++
		}
	}
	if queued == 0 {
		t.Error("none of 24 concurrent requests was queued, the engines' caps together are 4")
	}
	_, metrics := harness.GetBody(r.Admin+"/metrics", r.Token)
	for _, want := range []string{"kvasir_queue_waiting 0\n",
		fmt.Sprintf(`kvasir_queue_ended_total{end="placed"} %d`, queued), `kvasir_queue_ended_total{end="expired"} 0`} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// limit adds settings to the pool of a running router.
func limit(t testing.TB, r *harness.Router, settings string) {
	t.Helper()
	b, err := os.ReadFile(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	s := string(b)
	i := strings.Index(s, "pools: [{name: main, ")
	if i < 0 {
		t.Fatalf("no pool main in %s", s)
	}
	save(t, r.Config, []byte(s[:i]+"pools: [{name: main, "+settings+", "+s[i+len("pools: [{name: main, "):]))
	if status, b := adminDo(t, r, "POST", "/v1/reload", nil); status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	harness.Await(t, 10*time.Second, "the endpoints are ready", func() bool {
		_, b := harness.GetBody(r.Admin+"/v1/endpoints", r.Token)
		return strings.Count(string(b), `"ready":true`) >= 2
	})
}

// TestQueue_delay offers twice what the engines can take. Requests whose expected wait
// is too long are refused at once, so that the others wait little.
func TestQueue_delay(t *testing.T) {
	engines := startEngines(t, 2, "--step-ms", "50")
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}",
		"{name: default, holdout: 0, queue: {max_delay: 500ms}}", "")
	limit(t, r, "capacity: {max_inflight: 1}")
	var mu sync.Mutex
	var waits []time.Duration // of requests that were served, after the first two seconds
	refused := 0
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range 128 { // each takes 0.25 s: eight a second can be served
		time.Sleep(time.Until(begun.Add(time.Duration(i) * 62 * time.Millisecond)))
		wg.Go(func() {
			sent := time.Now()
			a, err := harness.Post(r.URL+"/v1/chat/completions", "",
				chatBody(engines[0].Model, "Brief.", fmt.Sprint(i), false, 4))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil || a.Status != 200 && a.Status != 429:
				t.Errorf("%v %+v", err, a)
			case a.Status == 429:
				refused++
				if s, e := strconv.Atoi(a.Header.Get("Retry-After")); e != nil || s < 1 ||
					!strings.Contains(string(a.Body), "expected wait") || time.Since(sent) > 2*time.Second {
					t.Errorf("refused after %v: Retry-After %v, %s", time.Since(sent), a.Header["Retry-After"], a.Body)
				}
			case sent.Sub(begun) > 2*time.Second:
				waits = append(waits, time.Since(sent))
			}
		})
	}
	wg.Wait()
	slices.Sort(waits)
	if refused < 20 || len(waits) < 20 || waits[len(waits)/2] > 2*time.Second {
		t.Errorf("%d refused, %d served, half of them within %v", refused, len(waits), waits[len(waits)/2])
	}
	if v := metricOf(t, r, `kvasir_queue_ended_total{end="too_slow"}`); v != fmt.Sprint(refused) {
		t.Errorf("the metric counts %s, %d were refused", v, refused)
	}
}
