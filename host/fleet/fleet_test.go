package fleet

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvindex"
)

// testFleet is a fleet whose watchers do not run.
type testFleet struct {
	*Fleet
	t     testing.TB
	store *endpoint.Store
	index *kvindex.Index
}

func newTestFleet(t testing.TB) *testFleet {
	holders := kvindex.HolderOf(config.MaxEndpoints, 0)
	f := &testFleet{t: t, store: endpoint.NewStore(),
		index: kvindex.New(kvindex.Config{Holders: holders, BudgetBytes: 1 << 20})}
	f.Fleet = New(Config{
		Store: f.store, Index: f.index, Assumed: kvindex.NewAssumed(kvindex.AssumedConfig{Holders: holders,
			BudgetBytes: 1 << 20}), Tiers: 3,
		Parser: func(string) backend.Parser { return nil }, Log: slog.New(slog.DiscardHandler),
	})
	return f
}

// apply puts pools in force.
func (f *testFleet) apply(pools ...config.Pool) {
	f.t.Helper()
	p, err := NewPlan(&config.Config{Pools: pools}, Secrets{}, f.applied())
	if err != nil {
		f.t.Fatal(err)
	}
	c := f.Begin(p)
	defer c.End()
	c.Switch()
}

// applied returns the plan in force.
func (f *testFleet) applied() *Plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plan
}

// urls lists the endpoints of the store.
func (f *testFleet) urls() string {
	snap := f.store.Load()
	var out []string
	for id := range snap.N {
		if info := snap.Info(endpoint.ID(id)); info != nil {
			out = append(out, info.URL)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func mainPool(urls ...string) config.Pool {
	return config.Pool{Name: "main", Dialect: "vllm", Endpoints: urls}
}

func machine(id, url string) []autoscale.Machine { return []autoscale.Machine{{ID: id, URL: url}} }

// TestNewPlan_refuses: what Apply could not put in force is refused, every fault of
// it, and the fleet stays as it is.
func TestNewPlan_refuses(t *testing.T) {
	var many []string
	for i := range config.MaxEndpoints + 1 {
		many = append(many, fmt.Sprintf("http://10.0.0.1:%d", 1000+i))
	}
	for want, pools := range map[string][]config.Pool{
		"want http://":                  {mainPool("ftp://10.0.0.1:1")},
		"want a port":                   {mainPool("http://10.0.0.1")},
		`duplicate endpoint http://a:1`: {mainPool("http://a:1", "http://a:1/")},
		`unknown dialect "esperanto"`:   {mainPool("http://10.0.0.1:1"), {Name: "p", Dialect: "esperanto"}},
		"2049 endpoints, at most 2048":  {mainPool(many...)},
	} {
		p, err := NewPlan(&config.Config{Pools: pools}, Secrets{}, nil)
		if p != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", p, err, want)
		}
	}
}

// TestApply_keepsMachines: what a driver adds after another plan is applied joins the
// endpoints of that plan.
func TestApply_keepsMachines(t *testing.T) {
	f := newTestFleet(t)
	f.apply(mainPool("http://10.0.0.1:8000"))
	f.apply(mainPool("http://10.0.0.9:8000"))
	if err := f.AddMachines("main", machine("a", "http://127.0.0.1:7")); err != nil {
		t.Fatal(err)
	}
	if got := f.urls(); got != "http://10.0.0.9:8000 http://127.0.0.1:7" {
		t.Errorf("endpoints %s", got)
	}
	f.apply(config.Pool{Name: "other", Dialect: "vllm"})
	if got := f.urls(); got != "" {
		t.Errorf("endpoints without the pool: %s", got)
	}
}

// TestApply_schemes: two URLs of one address are one endpoint, that of the first.
func TestApply_schemes(t *testing.T) {
	p := mainPool("http://10.0.0.1:1", "https://10.0.0.1:1")
	if _, err := NewPlan(&config.Config{Pools: []config.Pool{p}}, Secrets{}, nil); err == nil ||
		!strings.Contains(err.Error(), "duplicate endpoint https://10.0.0.1:1") {
		t.Errorf("listed twice: %v", err)
	}
	f := newTestFleet(t)
	f.apply(mainPool("https://10.0.0.1:1"))
	both := []string{"http://10.0.0.1:1", "http://10.0.0.2:1", "https://10.0.0.2:1"}
	if err := f.setDiscovered("main", both); err != nil {
		t.Fatal(err)
	}
	if got := f.urls(); got != "http://10.0.0.2:1 https://10.0.0.1:1" {
		t.Errorf("endpoints %s", got)
	}
	f.apply(mainPool("http://10.0.0.1:1"))
	if got := f.urls(); got != "http://10.0.0.1:1 http://10.0.0.2:1" {
		t.Errorf("after a change of the scheme: %s", got)
	}
}

// TestApply_labels: labels that look alike when they are printed are different.
func TestApply_labels(t *testing.T) {
	f := newTestFleet(t)
	p := mainPool("http://10.0.0.1:8000")
	for _, labels := range []map[string]string{{"a": "b", "c": "d"}, {"a": "b c:d"}, nil} {
		p.Labels = labels
		f.apply(p)
		got := f.store.Load().Info(0)
		if len(got.Labels) != len(labels)+1 || got.Labels["a"] != labels["a"] || got.Epoch != 1 {
			t.Errorf("labels %v of epoch %d, want %v of 1", got.Labels, got.Epoch, labels)
		}
	}
}

// TestFleet_full: machines for which there is no room are named, those that fit are
// taken, and what did not fit does not count for the next.
func TestFleet_full(t *testing.T) {
	f := newTestFleet(t)
	f.apply(mainPool("http://10.0.0.1:8000"))
	var many []autoscale.Machine
	for i := range config.MaxEndpoints {
		many = append(many, autoscale.Machine{ID: fmt.Sprint("m", i), URL: fmt.Sprintf("http://127.0.0.1:%d", 1000+i)})
	}
	if err := f.AddMachines("main", many); err == nil || !strings.Contains(err.Error(), "no room for 1 endpoints") {
		t.Fatalf("one machine too many: %v", err)
	}
	if n := strings.Count(f.urls(), "http"); n != config.MaxEndpoints {
		t.Errorf("%d endpoints", n)
	}
	f.RemoveMachine("main", "m0")
	if err := f.AddMachines("main", machine("a", "http://127.0.0.1:7")); err != nil {
		t.Errorf("one that fits: %v", err)
	}
	// Listed endpoints come first, whatever drivers have made.
	f.apply(mainPool("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
	if got := f.urls(); !strings.Contains(got, "10.0.0.2") || strings.Count(got, "http") != config.MaxEndpoints {
		t.Errorf("endpoints %s", got)
	}
}

// TestDiscovered_full: the same of discovered endpoints.
func TestDiscovered_full(t *testing.T) {
	f := newTestFleet(t)
	f.apply(mainPool("http://10.0.0.1:8000"))
	var many []string
	for i := range config.MaxEndpoints {
		many = append(many, fmt.Sprintf("http://127.0.0.1:%d", 1000+i))
	}
	if err := f.setDiscovered("main", many); err == nil ||
		!strings.Contains(err.Error(), "no room for 1 endpoints, the router serves at most 2048: http://127.0.0.1:3047") {
		t.Errorf("one endpoint too many: %v", err)
	}
	if err := f.setDiscovered("main", many[:3]); err != nil {
		t.Error(err)
	}
	if got := f.urls(); strings.Count(got, "http") != 4 {
		t.Errorf("endpoints %s", got)
	}
}
