package fleet

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// randomPools returns one to three pools that list some of a few addresses, with
// random attributes.
func randomPools(r *rand.Rand) []config.Pool {
	var out []config.Pool
	for i := range 1 + r.IntN(3) {
		p := config.Pool{
			Name: fmt.Sprint("pool", i), Dialect: []string{"vllm", "sglang", "openai"}[r.IntN(3)],
			Labels: map[string]string{"zone": fmt.Sprint(r.IntN(3))}, Price: float64(r.IntN(3)), Spot: r.IntN(2) == 0,
		}
		for k := range 4 {
			if r.IntN(2) == 0 {
				p.Endpoints = append(p.Endpoints, fmt.Sprintf("http://127.0.0.1:%d", 1+k))
			}
		}
		out = append(out, p)
	}
	return out
}

// model is what a fleet is to be, computed from scratch.
type model struct {
	pools      []config.Pool
	machines   map[string]map[string]string // URL by pool and id
	discovered map[string][]string
}

// endpoints returns the pool of each endpoint that there is to be.
func (m *model) endpoints() map[key]*config.Pool {
	out := map[key]*config.Pool{}
	for i := range m.pools {
		p := &m.pools[i]
		all := slices.Concat(p.Endpoints, m.discovered[p.Name], slices.Collect(maps.Values(m.machines[p.Name])))
		for _, u := range all {
			out[key{u, p.Name}] = p
		}
	}
	return out
}

// step changes the fleet and the model in one random way.
func (m *model) step(t *testing.T, r *rand.Rand, f *testFleet) string {
	pool := fmt.Sprint("pool", r.IntN(3))
	switch r.IntN(4) {
	case 0:
		m.pools = randomPools(r)
		f.apply(m.pools...)
		return "apply"
	case 1:
		id := fmt.Sprint("m", r.IntN(3))
		url := fmt.Sprintf("http://127.0.0.1:%d", 11+r.IntN(4))
		if m.machines[pool] == nil {
			m.machines[pool] = map[string]string{}
		}
		m.machines[pool][id] = url
		if err := f.AddMachines(pool, []autoscale.Machine{{ID: id, URL: url}}); err != nil {
			t.Fatal(err)
		}
		return "add machine"
	case 2:
		id := fmt.Sprint("m", r.IntN(3))
		delete(m.machines[pool], id)
		f.RemoveMachine(pool, id)
		return "remove machine"
	}
	var urls []string
	for k := range r.IntN(4) {
		urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d", 2+k)) // some are listed too
	}
	m.discovered[pool] = urls
	if err := f.setDiscovered(pool, urls); err != nil {
		t.Fatal(err)
	}
	return "discover"
}

// TestFleet_random: after each of random changes the store has exactly the endpoints
// of the model with their attributes, and one that stays keeps its epoch and Load.
func TestFleet_random(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newTestFleet(t)
		m := &model{machines: map[string]map[string]string{}, discovered: map[string][]string{}}
		loads := map[key]*endpoint.Load{}
		for i := range 300 {
			what := m.step(t, r, f)
			want, snap, got := m.endpoints(), f.store.Load(), map[key]*endpoint.Load{}
			for id := range snap.N {
				info := snap.Infos[id]
				if info == nil {
					continue
				}
				k := key{info.URL, info.Pool}
				p := want[k]
				if p == nil || info.Dialect != p.Dialect || info.Price != float32(p.Price) || info.Spot != p.Spot ||
					info.Labels["zone"] != p.Labels["zone"] || got[k] != nil {
					t.Fatalf("seed %d, step %d (%s): %+v, want %+v", seed, i, what, info, p)
				}
				got[k] = snap.Loads[id]
				if had := loads[k]; had != nil && had != snap.Loads[id] {
					t.Fatalf("seed %d, step %d (%s): %v is another endpoint than before", seed, i, what, k)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("seed %d, step %d (%s): %d endpoints, want %d", seed, i, what, len(got), len(want))
			}
			loads = got
		}
	}
}

// TestFleet_stress changes a fleet whose watchers run from several goroutines.
func TestFleet_stress(t *testing.T) {
	f := newTestFleet(t)
	f.apply(mainPool())
	ctx, cancel := context.WithCancel(context.Background())
	var running, work sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	do := func(seed uint64, change func(r *rand.Rand, i int)) {
		work.Go(func() {
			r := rand.New(rand.NewPCG(seed, 2))
			for i := range 60 {
				change(r, i)
			}
		})
	}
	do(1, func(r *rand.Rand, _ int) { f.apply(randomPools(r)...) })
	do(2, func(r *rand.Rand, i int) {
		f.AddMachines("pool0", machine(fmt.Sprint(i%3), fmt.Sprintf("http://127.0.0.1:%d", 11+r.IntN(4))))
		f.MachineNames("pool0")
		f.RemoveMachine("pool0", fmt.Sprint(r.IntN(3)))
	})
	do(3, func(r *rand.Rand, _ int) {
		f.setDiscovered("pool1", []string{fmt.Sprintf("http://127.0.0.1:%d", 21+r.IntN(3))})
		f.sources()
	})
	do(4, func(r *rand.Rand, _ int) {
		f.AllReady()
		if w := f.Watcher(endpoint.ID(r.IntN(8))); w != nil {
			w.Status()
		}
	})
	work.Wait()
	f.apply(mainPool("http://127.0.0.1:1"))
	if got := f.urls(); got != "http://127.0.0.1:1" {
		t.Errorf("endpoints %s", got)
	}
	cancel()
	running.Wait()
}
