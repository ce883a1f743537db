package scaling

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// testMachines keeps machines as endpoints of a store.
type testMachines struct {
	t     *testing.T
	store *endpoint.Store
	have  map[string]testMachine // by id
}

type testMachine struct {
	pool, url string
	slot      endpoint.ID
}

func (m *testMachines) AddMachines(pool string, list []autoscale.Machine) error {
	for _, x := range list {
		id, err := m.store.Add(endpoint.Info{URL: x.URL, Addr: strings.TrimPrefix(x.URL, "http://"), Pool: pool})
		if err != nil {
			m.t.Fatal(err)
		}
		m.have[x.ID] = testMachine{pool, x.URL, id}
	}
	return nil
}

func (m *testMachines) RemoveMachine(_, id string) {
	m.store.Remove(m.have[id].slot)
	delete(m.have, id)
}

func (m *testMachines) MachineNames(pool string) map[string]string {
	out := map[string]string{}
	for id, x := range m.have {
		if x.pool == pool {
			out[x.url] = id
		}
	}
	return out
}

// admitAll admits every machine.
type admitAll struct{}

func (admitAll) Admit(*config.Pool, string) error { return nil }

// testManager is a manager of pool "main" with an endpoint that no driver made.
type testManager struct {
	*Manager
	machines *testMachines
	slot     endpoint.ID
}

func newTestManager(t *testing.T) *testManager {
	store := endpoint.NewStore()
	x := &testManager{machines: &testMachines{t: t, store: store, have: map[string]testMachine{}}}
	x.Manager = New(Config{
		Store: store, Machines: x.machines, Admission: admitAll{}, Sessions: func() map[uint32]int { return nil },
		QueueWait: func([]string, time.Time) time.Duration { return 0 },
		Override:  func(string) (autoscale.Overrider, bool) { return nil, false }, Audit: func(autoscale.Action) {},
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	var err error
	if x.slot, err = store.Add(endpoint.Info{URL: "http://10.0.0.1:8000", Addr: "10.0.0.1:8000",
		Pool: "main"}); err != nil {
		t.Fatal(err)
	}
	return x
}

// apply puts pools in force.
func (m *testManager) apply(t *testing.T, pools ...config.Pool) {
	t.Helper()
	p, err := NewPlan(&config.Config{Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	m.Apply(p)
}

func scaled(name string) config.Pool {
	return config.Pool{Name: name, Autoscale: config.Autoscale{Max: 9, Target: 0.5}}
}

// TestNewPlan_refuses: what Apply could not put in force is refused, every fault of
// it.
func TestNewPlan_refuses(t *testing.T) {
	short := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(short, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hook := func(name, file string) config.Pool {
		p := scaled(name)
		p.Autoscale.Driver.Webhook = config.Webhook{URL: "https://a.example", SecretFile: file}
		return p
	}
	gone := scaled("d")
	gone.Autoscale.Driver.Command = []string{short + ".none"}
	bad := scaled("b")
	bad.Autoscale.Min = 10
	_, err := NewPlan(&config.Config{Pools: []config.Pool{hook("a", short), bad, hook("c", short+".none"), gone}})
	for _, want := range []string{`pool "a": webhook secret in ` + short + `: want at least 16 characters`,
		`pool "b": autoscale: max 9 is less than min 10`, `pool "c": webhook secret: open`, `pool "d": driver command: `} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestApply_keepsController: attributes of a pool change in place; a controller ends
// when its bounds, or its driver's secret, change. No two use an order's key twice.
func TestApply_keepsController(t *testing.T) {
	m := newTestManager(t)
	m.apply(t, scaled("main"))
	first, fence := m.groups[0].control, m.fence
	p := scaled("main")
	p.Price, p.Spot, p.Labels, p.Capacity.MaxInflight, p.Endpoints = 3, true, map[string]string{"a": "b"}, 7,
		[]string{"http://a:1"}
	p.Autoscale.Plugin, p.Autoscale.Shadow = "x", true
	m.apply(t, p)
	if g := m.groups[0]; g.control != first || m.fence != fence || len(m.retired) != 0 ||
		g.nodes.pool("main").Price != 3 || g.plan.pools[0].Price != 3 {
		t.Errorf("another controller, or one that does not know the price: %+v", g)
	}
	p.Autoscale.Max = 8
	m.apply(t, p)
	if m.groups[0].control == first || m.fence == fence || len(m.retired) != 1 {
		t.Error("the controller stays although its bounds changed")
	}
	second, fence := m.groups[0].control, m.fence
	secret := filepath.Join(t.TempDir(), "secret")
	p.Autoscale.Driver.Webhook = config.Webhook{URL: "https://a.example", SecretFile: secret}
	for i, s := range []string{"0123456789abcdef", "0123456789abcdeg"} {
		if err := os.WriteFile(secret, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		m.apply(t, p)
		if m.groups[0].control == second || m.fence <= fence {
			t.Errorf("secret %d: the controller stays", i)
		}
		second, fence = m.groups[0].control, m.fence
	}
}

func TestGroupsOf(t *testing.T) {
	cfg := &config.Config{Pools: []config.Pool{
		{Name: "spot", Autoscale: config.Autoscale{Max: 4, OverflowOf: "own"}}, {Name: "fixed"},
		{Name: "own", Autoscale: config.Autoscale{Max: 2}}, {Name: "other", Autoscale: config.Autoscale{Max: 1}},
	}}
	var got []string
	for _, g := range groupsOf(cfg) {
		got = append(got, strings.Join((&groupPlan{cfg: g}).names(), " "))
	}
	if strings.Join(got, ",") != "own spot,other" {
		t.Errorf("groups %q", got)
	}
}

// TestManager_forgetsEpochs: nothing is kept of machines that were removed.
func TestManager_forgetsEpochs(t *testing.T) {
	m := newTestManager(t)
	m.apply(t, scaled("main"))
	f := m.groups[0].nodes
	for i := range 400 {
		id := fmt.Sprint("m", i)
		m.machines.AddMachines("main", []autoscale.Machine{{ID: id, URL: fmt.Sprintf("http://127.0.0.1:%d", 1000+i)}})
		if n := len(f.Nodes("main")); n != 2 {
			t.Fatalf("%d endpoints", n)
		}
		m.work.signal(m.cfg.Store.Load(), []string{"main"}, time.Now())
		f.Remove("main", id)
	}
	w := m.work
	if most := 2*2 + 64 + 1; len(f.first) > most || len(f.ready) > most || len(w.seen) > most || len(w.pools) > most ||
		len(w.heats) > most {
		t.Errorf("kept: first %d, ready %d, seen %d, pools %d, heats %d", len(f.first), len(f.ready), len(w.seen),
			len(w.pools), len(w.heats))
	}
}

// TestManager_Notice: by the driver's name or by URL, and none for what is not
// there.
func TestManager_Notice(t *testing.T) {
	m := newTestManager(t)
	m.apply(t, scaled("main"), config.Pool{Name: "fixed"})
	m.machines.AddMachines("main", []autoscale.Machine{{ID: "a", URL: "http://127.0.0.1:7"}})
	for id, want := range map[string]string{"a": "a", "http://127.0.0.1:7": "a",
		"http://10.0.0.1:8000/": "http://10.0.0.1:8000", "b": ""} {
		if got, _ := m.groups[0].nodes.nameOf("main", id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
		err := m.Notice("main", id, time.Now())
		if (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrNoEndpoint) {
			t.Errorf("notice for %s: %v", id, err)
		}
	}
	if err := m.Notice("fixed", "a", time.Now()); !errors.Is(err, ErrNotScaled) {
		t.Errorf("notice for a pool that is not scaled: %v", err)
	}
}

// TestNodes_inFlight: what of an endpoint's requests a controller sees.
func TestNodes_inFlight(t *testing.T) {
	m := newTestManager(t)
	now := time.Now()
	m.cfg.Now = func() time.Time { return now }
	m.apply(t, scaled("main"))
	f := m.groups[0].nodes
	f.Nodes("main")
	c := m.cfg.Store.Load().Loads[m.slot].Charge("t", 0, 1)
	now = now.Add(7 * time.Second)
	if n := f.Nodes("main")[0]; n.InFlight != 1 || n.Oldest != 7*time.Second {
		t.Errorf("%+v, want a request of 7 s", n)
	}
	c.Release()
	if n := f.Nodes("main")[0]; n.InFlight != 0 || n.Oldest != 0 {
		t.Errorf("%+v, want no request", n)
	}
}

// TestNodes_check: machines join within the allow-list only, and none that the
// configuration lists.
func TestNodes_check(t *testing.T) {
	p := config.Pool{Name: "p", Endpoints: []string{"http://127.0.0.1:9/"},
		Autoscale: config.Autoscale{Max: 4, Driver: config.Driver{Allow: []string{"10.1.0.0/16", "*.gpu.example",
			"127.0.0.1"}}}}
	f := newNodes(&Config{Admission: admitAll{}}, nil, []config.Pool{p})
	good := []autoscale.Machine{
		{URL: "http://10.1.2.3:8000"}, {URL: "http://a.gpu.example:8000/"},
		{URL: "http://127.0.0.1:1", Events: "tcp://127.0.0.1:5", Replay: "tcp://127.0.0.1:6"},
	}
	for _, m := range good {
		if err := f.check(&p, &m); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	bad := map[string]autoscale.Machine{
		"driver.allow":                 {URL: "http://10.2.0.1:8000"},
		"metadata":                     {URL: "http://169.254.169.254:80/latest/metadata"},
		"gpu.example is not":           {URL: "http://gpu.example:80"},
		"evil":                         {URL: "http://10.1.2.3.evil.example:80"},
		"want http://":                 {URL: "ftp://10.1.2.3:8000"},
		"only scheme":                  {URL: "http://user@10.1.2.3:8000"},
		"want events at":               {URL: "http://10.1.2.3:8000", Events: "tcp://10.1.2.4:5557"},
		"want events at tcp":           {URL: "http://10.1.2.3:8000", Replay: "ipc:///tmp/x"},
		"such as http://10.1.2.":       {URL: "http://10.1.2.3"},
		"that the configuration lists": {URL: "http://127.0.0.1:9"},
	}
	for want, m := range bad {
		if err := f.check(&p, &m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
}

// TestRoom: bounded in all, and a tenant has half of it.
func TestRoom(t *testing.T) {
	r := newRoom(nil)
	in := func(tenant string) roomTenant { return roomTenant{"p", tenant} }
	begun := time.Now()
	for range 2 {
		if !r.enter(in("a"), 5, begun) {
			t.Fatal("refused with room")
		}
	}
	if r.enter(in("a"), 5, begun) {
		t.Error("one tenant has more than half")
	}
	for _, tenant := range []string{"b", "b", "c"} {
		if !r.enter(in(tenant), 5, begun.Add(time.Second)) {
			t.Errorf("%s was refused with room", tenant)
		}
	}
	if r.enter(in("d"), 5, begun) {
		t.Error("more than fit")
	}
	if n, longest := r.waiting([]string{"p", "q"}, begun.Add(time.Minute)); n != 5 || longest != time.Minute {
		t.Errorf("%d wait, the first for %v, want 5, a minute", n, longest)
	}
	for range 2 {
		r.leave(in("a"), begun)
	}
	if n, longest := r.waiting([]string{"p", "q"}, begun.Add(time.Minute)); n != 3 || longest != 59*time.Second {
		t.Errorf("%d wait, the first for %v, want 3, 59s", n, longest)
	}
	for _, tenant := range []string{"b", "b", "c"} {
		r.leave(in(tenant), begun.Add(time.Second))
	}
	if len(r.pools) != 0 || len(r.tenants) != 0 || r.refused != 2 || r.held != 5 {
		t.Errorf("left behind: %+v", r)
	}
}

// TestRoom_Enter: who may wait for a model, and for how long.
func TestRoom_Enter(t *testing.T) {
	m := newTestManager(t)
	p := scaled("main")
	p.Autoscale.MaxHeld, p.Autoscale.MaxHold, p.Autoscale.ColdStart = 1, config.Duration(20*time.Millisecond),
		config.Duration(time.Minute)
	plan, err := NewPlan(&config.Config{Pools: []config.Pool{p, {Name: "fixed"}}, Models: []config.Model{
		{Name: "m", Aliases: []string{"alias"}, Pools: []config.ModelPool{{Name: "main"}}},
		{Name: "n", Pools: []config.ModelPool{{Name: "fixed"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	m.Apply(plan)
	for _, model := range []string{"n", "unknown"} {
		if s, err := m.Room().Enter(model, "a"); s != nil || err != nil {
			t.Errorf("%s: %v, %v", model, s, err)
		}
	}
	s, err := m.Room().Enter("alias", "a")
	if err != nil || s.ColdStart != time.Minute {
		t.Fatalf("%+v, %v", s, err)
	}
	if full, err := m.Room().Enter("m", "b"); !errors.Is(err, ErrRoomFull) || full.ColdStart != time.Minute {
		t.Errorf("%+v, %v", full, err)
	}
	if s.Await(nil) {
		t.Error("an endpoint came from nowhere")
	}
	if s, err = m.Room().Enter("m", "a"); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	close(gone)
	if s.Await(gone) {
		t.Error("the client is gone")
	}
	m.cfg.Store.Update(m.slot, func(s *endpoint.State) { s.Ready = true })
	if s, err := m.Room().Enter("m", "a"); s != nil || err != nil {
		t.Errorf("an endpoint is there: %v, %v", s, err)
	}
}
