package collectors

import (
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/queue"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// exported returns the samples that collectors emit, by name and labels as Prometheus
// writes them. It fails if one is not as the catalog declares it.
func exported(t *testing.T, collectors ...func(*telemetry.Emitter)) map[string]float64 {
	t.Helper()
	r := telemetry.New()
	for _, f := range collectors {
		r.Collect(f)
	}
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	catalog := map[string]*metric.Desc{}
	for _, d := range metric.All() {
		catalog[d.Name()] = d
	}
	out := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		if words := strings.Fields(line); len(words) > 3 && words[1] == "TYPE" && strings.HasPrefix(words[2], "kvasir_") {
			if d := catalog[words[2]]; d == nil || d.Kind().String() != words[3] {
				t.Errorf("%s is not as the catalog has it: %+v", line, d)
			}
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out[line[:at]] = v
		checkLabels(t, catalog, line[:at])
	}
	return out
}

var labelName = regexp.MustCompile(`[{,]([a-z_]+)="`)

// checkLabels compares the labels of a sample with the catalog's.
func checkLabels(t *testing.T, catalog map[string]*metric.Desc, sample string) {
	t.Helper()
	name, _, _ := strings.Cut(sample, "{")
	d := catalog[name]
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if d == nil {
			d = catalog[strings.TrimSuffix(name, suffix)]
		}
	}
	if d == nil {
		if strings.HasPrefix(name, "kvasir_") {
			t.Errorf("%s is not in the catalog", name)
		}
		return
	}
	var got []string
	for _, m := range labelName.FindAllStringSubmatch(sample, -1) {
		if m[1] != "le" {
			got = append(got, m[1])
		}
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(d.Labels())); !slices.Equal(got, want) {
		t.Errorf("%s has the labels %v, want %v", sample, got, want)
	}
}

// want compares samples.
func want(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for sample, v := range want {
		if g, there := got[sample]; !there || g != v {
			t.Errorf("%s: got %v (there: %t), want %v", sample, g, there, v)
		}
	}
}

func TestEndpoints(t *testing.T) {
	s := endpoint.NewStore()
	for _, u := range []string{"http://a:1", "http://b:1", "http://c:1"} {
		if _, err := s.Add(endpoint.Info{URL: u, Addr: u, Pool: "p"}); err != nil {
			t.Fatal(err)
		}
	}
	s.Update(0, func(st *endpoint.State) { st.Ready, st.Trust, st.KVUsage = true, 0.5, 0.25 })
	s.Remove(1)
	charge := s.Load().Loads[0].Charge("acme", 300, 400)
	defer charge.Release()
	now := time.Now()
	for range 3 {
		s.Report(s.Load().Loads[2], endpoint.ResultFailed, now)
	}
	fleet := backend.NewFleet(kvindex.New(kvindex.Config{Holders: 8, BudgetBytes: 1 << 20}),
		kvindex.NewAssumed(kvindex.AssumedConfig{Holders: 8, BudgetBytes: 1 << 20}), s)
	if _, err := fleet.Add(backend.Config{ID: 0, URL: "http://a:1", Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	got := exported(t, Endpoints(s, fleet.Watcher, func() time.Time { return now }))
	const a, c = `{endpoint="http://a:1",pool="p"}`, `{endpoint="http://c:1",pool="p"}`
	want(t, got, map[string]float64{
		"kvasir_endpoint_ready" + a: 1, "kvasir_endpoint_ready" + c: 0,
		"kvasir_endpoint_trust" + a: 0.5, "kvasir_endpoint_kv_usage" + a: 0.25,
		"kvasir_endpoint_inflight" + a: 1, "kvasir_endpoint_outstanding_tokens" + a: 300,
		"kvasir_endpoint_restarts_total" + a: 0,
	})
	for sample := range got {
		if strings.Contains(sample, "http://b:1") {
			t.Errorf("a removed endpoint has %s", sample)
		}
		if strings.Contains(sample, "kvasir_events") && strings.Contains(sample, "http://c:1") {
			t.Errorf("an endpoint without a watcher has %s", sample)
		}
	}
}

func TestQueue(t *testing.T) {
	var q queue.Queue
	now := time.Now()
	enter := func() *queue.Waiter {
		return q.Enter(queue.Want{Lane: "p", Pools: []string{"p"}, Tenant: "acme"}, 3, now)
	}
	placed, left, late := enter(), enter(), enter()
	if enter() != nil {
		t.Fatal("a fourth request entered")
	}
	placed.Leave(queue.Placed, now.Add(time.Second))
	left.Leave(queue.Left, now)
	late.Leave(queue.Expired, now)
	defer enter().Leave(queue.Left, now)
	want(t, exported(t, Queue(&q)), map[string]float64{
		"kvasir_queue_waiting":                        1,
		`kvasir_queue_ended_total{end="placed"}`:      1,
		`kvasir_queue_ended_total{end="expired"}`:     1,
		`kvasir_queue_ended_total{end="client_gone"}`: 1,
		`kvasir_queue_ended_total{end="full"}`:        1,
		"kvasir_queue_seconds_count":                  3,
	})
}

func TestScheduler(t *testing.T) {
	s := scheduler.NewState(scheduler.StateConfig{Store: endpoint.NewStore()})
	got := exported(t, Scheduler(s))
	for _, name := range scheduler.StageNames {
		if v, there := got[`kvasir_stage_seconds_count{stage="`+name+`"}`]; !there || v != 0 {
			t.Errorf("stage %s: got %v (there: %t)", name, v, there)
		}
	}
	want(t, got, map[string]float64{"kvasir_quota_budgets": 0})
}

func TestCredentials(t *testing.T) {
	s, err := identity.NewStore(identity.Config{Pepper: []byte(strings.Repeat("p", 32))})
	if err != nil {
		t.Fatal(err)
	}
	set, err := s.NewSet(identity.SetConfig{Anonymous: "local"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := set.Authenticate(&identity.Credentials{}); err != nil {
			t.Fatal(err)
		}
	}
	want(t, exported(t, Credentials(s)), map[string]float64{
		`kvasir_credentials_total{result="anonymous"}`: 2, `kvasir_credentials_total{result="accepted"}`: 0,
		`kvasir_credentials_total{result="unknown"}`: 0,
	})
}

func TestAudit(t *testing.T) {
	l, err := audit.Open(filepath.Join(t.TempDir(), "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := exported(t, Audit(l))
	want(t, got, map[string]float64{"kvasir_audit_failures_total": 0})
}

func TestIndex(t *testing.T) {
	x := kvindex.New(kvindex.Config{Holders: 8, BudgetBytes: 1 << 20})
	assumed := kvindex.NewAssumed(kvindex.AssumedConfig{Holders: 8, BudgetBytes: 1 << 20})
	predictor := kvindex.NewPredictor(kvindex.Config{Holders: 8, BudgetBytes: 1 << 20})
	got := exported(t, Index(x, assumed, predictor))
	want(t, got, map[string]float64{"kvasir_index_blocks": 0, "kvasir_index_bytes": float64(x.Stats().Bytes)})
}
