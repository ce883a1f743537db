package endpoint

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

func mustAdd(t *testing.T, s *Store, addr, pool string, labels map[string]string) ID {
	t.Helper()
	id, err := s.Add(Info{Addr: addr, Pool: pool, Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestStore_reusesSlotsNotEpochs(t *testing.T) {
	s := NewStore()
	a, b := mustAdd(t, s, "a:1", "p", nil), mustAdd(t, s, "b:1", "p", nil)
	if a != 0 || b != 1 {
		t.Fatalf("got slots %d, %d, want 0, 1", a, b)
	}
	g := s.Load().Infos[a].Epoch
	s.Remove(a)
	if snap := s.Load(); snap.Infos[a] != nil || snap.Live.Has(a) || snap.Current(a, g) {
		t.Error("slot 0 is live after Remove")
	}
	c := mustAdd(t, s, "c:1", "p", nil)
	snap := s.Load()
	if c != a || snap.Infos[c].Epoch == g || snap.Current(c, g) {
		t.Errorf("got slot %d, epoch %d, want slot %d, another epoch than %d", c, snap.Infos[c].Epoch, a, g)
	}
	s.Remove(b)
	s.Remove(c)
	s.Remove(c) // twice does nothing
	if n := s.Load().N; n != 0 {
		t.Errorf("got N %d of an empty store", n)
	}
}

func TestStore_addErrors(t *testing.T) {
	testdeps.Sequential(t)
	s := NewStore()
	mustAdd(t, s, "a:1", "p", nil)
	if _, err := s.Add(Info{Addr: "a:1", Pool: "p"}); !errors.Is(err, ErrDuplicate) {
		t.Errorf("got %v, want ErrDuplicate", err)
	}
	if _, err := s.Add(Info{Addr: "a:1", Pool: "q"}); err != nil {
		t.Errorf("one address in two pools: %v", err)
	}
	for i := 2; i < MaxEndpoints; i++ {
		mustAdd(t, s, fmt.Sprint(i), "p", nil)
	}
	if _, err := s.Add(Info{Addr: "z", Pool: "p"}); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}

func TestStore_columns(t *testing.T) {
	s := NewStore()
	id := mustAdd(t, s, "a:1", "p", map[string]string{"region": "eu", "pool": "forged"})
	at := time.Now().Add(-2 * time.Second)
	s.Update(id, func(st *State) {
		*st = State{Ready: true, Running: 3, Waiting: 4, KVUsage: .5, BlockTokens: 16, CacheBlocks: 100, MaxModelLen: 4096,
			Trust: 7, Events: EventsLive, Models: []string{"m"}, Adapters: []string{"l"}, ScrapedAt: at}
	})
	v := s.Load()
	if v.N != 1 || v.Running[0] != 3 || v.Waiting[0] != 4 || v.KVUsage[0] != .5 || v.BlockTokens[0] != 16 ||
		v.CacheBlocks[0] != 100 || v.MaxModelLen[0] != 4096 || v.Events[0] != EventsLive {
		t.Errorf("got columns %+v", v)
	}
	if v.Trust[0] != 1 {
		t.Errorf("got trust %v, want 1: it is clamped", v.Trust[0])
	}
	if !v.Ready.Has(0) || !v.Live.Has(0) || v.Reasons[0] != "" {
		t.Error("not ready")
	}
	if !v.Label("region", "eu").Has(0) || !v.Pool("p").Has(0) || v.Pool("forged") != nil {
		t.Error("labels: want region=eu and pool=p, the pool's name wins over a label of that key")
	}
	if !v.Serves(0, "m") || v.Serves(0, "n") || !v.Adapter("l").Has(0) {
		t.Error("models or adapters wrong")
	}
	if age := v.AgeMS(0, at.Add(2*time.Second)); age < 1999 || age > 2001 {
		t.Errorf("got age %v ms, want 2000", age)
	}
	if got := v.State(0); got.Running != 3 {
		t.Errorf("got state %+v", got)
	}
}

func TestStore_readiness(t *testing.T) {
	for _, c := range []struct {
		state State
		ready bool
		why   string
	}{
		{State{Ready: true}, true, ""},
		{State{}, false, "not ready"},
		{State{Reason: "health: 500"}, false, "health: 500"},
		{State{Ready: true, Sleeping: true}, false, "sleeping"},
		{State{Ready: true, Draining: true}, false, "draining"},
	} {
		s := NewStore()
		id := mustAdd(t, s, "a", "p", nil)
		s.Update(id, func(st *State) { *st = c.state })
		v := s.Load()
		if v.Ready.Has(id) != c.ready || v.Reasons[id] != c.why {
			t.Errorf("%+v: got ready %v, reason %q, want %v, %q", c.state, v.Ready.Has(id), v.Reasons[id], c.ready, c.why)
		}
	}
}

func TestStore_snapshotIsImmutable(t *testing.T) {
	s := NewStore()
	id := mustAdd(t, s, "a", "p", nil)
	old := s.Load()
	s.Update(id, func(st *State) { st.Ready, st.Running = true, 9 })
	s.Remove(id)
	if old.Running[0] != 0 || old.Ready.Has(id) || !old.Live.Has(id) || old.Infos[0] == nil {
		t.Error("an earlier snapshot changed")
	}
	if s.Update(id, func(*State) { t.Error("f called for an empty slot") }) {
		t.Error("Update of an empty slot: got true")
	}
}

func TestStore_loadAllocs(t *testing.T) {
	s := NewStore()
	mustAdd(t, s, "a", "p", map[string]string{"k": "v"})
	if n := testing.AllocsPerRun(100, func() {
		v := s.Load()
		_ = v.Pool("p").Has(0) && v.Label("k", "v").Has(0) && v.Serves(0, "m")
	}); n != 0 {
		t.Errorf("got %v allocs per read, want 0", n)
	}
}

func TestSet(t *testing.T) {
	a := make(Set, 2)
	for _, id := range []ID{0, 5, 64, 127} {
		a.Add(id)
	}
	if a.Len() != 4 || !a.Has(64) || a.Has(65) || a.Has(1000) || a.Empty() {
		t.Errorf("got %x", a)
	}
	b := make(Set, 1)
	b.Add(5)
	c := append(Set(nil), a...)
	c.And(b)
	if got := c.AppendIDs(nil); len(got) != 1 || got[0] != 5 {
		t.Errorf("And with a shorter set: got %v, want [5]", got)
	}
	a.AndNot(b)
	a.Drop(127)
	if got := fmt.Sprint(a.AppendIDs(nil)); got != "[0 64]" {
		t.Errorf("got %v, want [0 64]", got)
	}
	c.Or(a[:1])
	if got := fmt.Sprint(c.AppendIDs(nil)); got != "[0 5]" {
		t.Errorf("got %v, want [0 5]", got)
	}
}

// TestStore_Switch_retire: a retired endpoint is gone for readers, in the snapshot that has
// the edition, but keeps its slot until it is removed.
func TestStore_Switch_retire(t *testing.T) {
	s := NewStore()
	a, b := mustAdd(t, s, "a:1", "p", nil), mustAdd(t, s, "b:1", "p", nil)
	before := s.Load()
	s.Switch(7, []ID{a, 99}, map[ID]Info{a: {Price: 1}, b: {Price: 2}})
	after := s.Load()
	if before.Edition != 0 || after.Edition != 7 {
		t.Errorf("editions %d and %d, want 0 and 7", before.Edition, after.Edition)
	}
	if after.Live.Has(a) || after.Info(a) != nil || after.Pool("p").Has(a) || after.Current(a, before.Infos[a].Epoch) {
		t.Error("a retired endpoint is seen")
	}
	if after.Info(b).Price != 2 || before.Info(b).Price != 0 || !before.Live.Has(a) {
		t.Errorf("got %+v, before %+v", after.Info(b), before.Info(b))
	}
	if got := mustAdd(t, s, "a:1", "p", nil); got == a {
		t.Error("the slot of a retired endpoint was given to another")
	}
	if !s.Update(a, func(st *State) { st.Ready, st.Models = true, []string{"m"} }) || s.Load().Ready.Has(a) {
		t.Error("an update of a watcher that has not ended")
	}
	s.Remove(a)
	if got := mustAdd(t, s, "c:1", "p", nil); got != a || s.Load().Edition != 7 {
		t.Errorf("slot %d is not free, edition %d", a, s.Load().Edition)
	}
}

// TestStore_Replace: endpoints go and come in one snapshot.
func TestStore_Replace(t *testing.T) {
	s := NewStore()
	add := func(n ...string) (infos []Info) {
		for _, addr := range n {
			infos = append(infos, Info{Addr: addr, Pool: "p"})
		}
		return infos
	}
	version := func() uint64 { return s.Load().Topology }
	ids, err := s.Replace(nil, add("a:1", "b:1", "c:1"))
	if err != nil || fmt.Sprint(ids) != "[0 1 2]" || version() != 1 {
		t.Fatalf("got %v, %v, version %d", ids, err, version())
	}
	ids, err = s.Replace([]ID{2, 0, 5}, add("d:1", "a:1"))
	if err != nil || fmt.Sprint(ids) != "[0 2]" || version() != 2 {
		t.Fatalf("got %v, %v, version %d", ids, err, version())
	}
	load := s.Load().Loads[0]
	if ids, err = s.Replace([]ID{0}, add("e:1", "b:1")); !errors.Is(err, ErrDuplicate) || ids != nil {
		t.Errorf("got %v, %v, want ErrDuplicate", ids, err)
	}
	if snap := s.Load(); snap.Live.Len() != 2 || snap.Info(0) != nil || !load.gone.Load() {
		t.Errorf("after an error: %d endpoints, slot 0 %v", snap.Live.Len(), snap.Info(0))
	}
	if ids, err = s.Replace(nil, nil); ids != nil || err != nil || version() != 3 {
		t.Errorf("nothing: got %v, %v, version %d", ids, err, version())
	}
}

// TestStore_Switch: attributes change in place; the endpoint's identity, state and load
// stay.
func TestStore_Switch(t *testing.T) {
	s := NewStore()
	id, err := s.Add(Info{URL: "http://a:1", Addr: "a:1", Pool: "p", Dialect: "vllm",
		Labels: map[string]string{"zone": "a"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Update(id, func(st *State) { st.Ready, st.Models = true, []string{"m"} })
	before := s.Load()
	before.Loads[id].Charge("t", 7, 7)
	labels := map[string]string{"zone": "b", LabelIsolation: IsolationVerified, LabelPool: "other"}
	s.Switch(3, nil, map[ID]Info{id + 1: {}, id: {
		URL: "http://b:1", Addr: "b:1", Pool: "q", Dialect: "sglang", Labels: labels, Price: 2, Spot: true,
	}})
	labels["zone"] = "mine"
	after := s.Load()
	got, was := after.Info(id), before.Info(id)
	if got.URL != was.URL || got.Addr != was.Addr || got.Pool != "p" || got.Epoch != was.Epoch || got.ID != id {
		t.Errorf("another endpoint: %+v", got)
	}
	if got.Dialect != "sglang" || got.Price != 2 || !got.Spot || got.Labels["zone"] != "b" ||
		got.Labels[LabelPool] != "p" {
		t.Errorf("attributes %+v", got)
	}
	if was.Dialect != "vllm" || was.Labels["zone"] != "a" {
		t.Errorf("an earlier snapshot changed: %+v", was)
	}
	if after.Loads[id] != before.Loads[id] || after.Loads[id].Inflight() != 1 || !after.Ready.Has(id) {
		t.Error("load or readiness is lost")
	}
	if after.Label("zone", "a") != nil || !after.Label("zone", "b").Has(id) ||
		after.Label(LabelIsolation, IsolationVerified) != nil || after.Topology == before.Topology {
		t.Error("label sets do not follow")
	}
	if after.N != 1 {
		t.Errorf("%d slots, want 1", after.N)
	}
}
