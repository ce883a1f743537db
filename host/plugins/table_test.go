package plugins

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/internal/snapshot"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
	shipped "github.com/kvasir-router/kvasir/plugins"
)

func openTable(t testing.TB) *table {
	t.Helper()
	rt, err := wasm.New(context.Background(), wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	table := newTable(rt)
	t.Cleanup(func() {
		if err := table.close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

func acquire(t testing.TB, table *table, name string, cfg config.JSON, number int) *plugin {
	t.Helper()
	code, err := shipped.Code(name)
	if err != nil {
		t.Fatal(err)
	}
	if number > 0 { // a module of its own, by an unused custom section
		code = binary.LittleEndian.AppendUint32(append(code, 0, 6, 1, 'n'), uint32(number))
	}
	c := config.Plugin{Name: name}
	p, err := table.acquire(context.Background(), keyOf(&c, moduleOf(fromFile, code, nil).digest, cfg), fromShipped, code,
		time.Now(), trialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fill makes a batch of n candidates, as a decision would.
func fill(t testing.TB, n int) *scheduler.Batch {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	col := func(most float32) []float32 {
		c := make([]float32, n)
		for i := range c {
			c[i] = rng.Float32() * most
		}
		return c
	}
	b := &scheduler.Batch{N: n, PromptTokens: 5000, NowMS: 1e12, Seed: 7, Model: "b", BodyBytes: 4097,
		Matched: col(5000), Uncached: col(5000), Outstanding: col(90000), Inflight: col(30), KVActive: col(200000),
		Speed: col(2), Delay: col(500),
		Running: col(9), Waiting: col(9), KVUsage: col(1), Trust: col(1), AgeMS: col(900), Rates: col(9000),
		Scores: make([]float32, n)}
	for i := range n {
		b.Endpoints = append(b.Endpoints, endpoint.ID(i))
		b.Infos = append(b.Infos, &endpoint.Info{ID: endpoint.ID(i), Epoch: 1,
			Labels: map[string]string{"zone": string(rune('a' + i%2))}})
	}
	return b
}

// TestAdapter_leastwork: the shipped plugin in the place of the built-in gives
// the same scores and terms, by the profile's objective, without allocations.
func TestAdapter_leastwork(t *testing.T) {
	table := openTable(t)
	p := acquire(t, table, "leastwork", "", 0)
	defer table.release([]*plugin{p})
	cfg := &config.Config{Models: []config.Model{{Name: "a"}, {Name: "b"}}}
	for _, objective := range []string{"blend", "ttft", "throughput"} {
		s := scorer{newAdapter(p, cfg, 0, objective)}
		b, want := fill(t, 64), fill(t, 64)
		if err := s.Score(b); err != nil {
			t.Fatal(err)
		}
		if err := scheduler.NewLeastWork(scheduler.Objective(objective)).Score(want); err != nil {
			t.Fatal(err)
		}
		again := fill(t, 64)
		names, terms, err := s.Explain(again)
		if err != nil || len(names) != 6 || len(terms) != 6*64 {
			t.Fatalf("%v %v %v", names, len(terms), err)
		}
		for i := range want.Scores {
			if w := math.Float32bits(want.Scores[i]); math.Float32bits(b.Scores[i]) != w ||
				math.Float32bits(again.Scores[i]) != w {
				t.Fatalf("%s: candidate %d: got %v, explained %v, want %v", objective, i, b.Scores[i], again.Scores[i],
					want.Scores[i])
			}
			if terms[i] != -b.Outstanding[i] {
				t.Fatalf("candidate %d: term %s %v of %v", i, names[0], terms[i], b.Outstanding[i])
			}
		}
	}
}

// TestTable: one module with the same settings is loaded once, and closed
// when the last generation that holds it is dropped.
func TestTable(t *testing.T) {
	table := openTable(t)
	a, b := acquire(t, table, "leastwork", "", 0), acquire(t, table, "leastwork", "", 0)
	c := acquire(t, table, "leastwork", `{"objective":"ttft"}`, 0)
	if a != b || a == c || len(table.list()) != 2 {
		t.Errorf("%p %p %p of %d", a, b, c, len(table.list()))
	}
	table.release([]*plugin{a, c})
	table.closeDead()
	in := scorer{newAdapter(a, &config.Config{}, 0, "blend")}
	if err := in.Score(fill(t, 3)); err != nil || len(table.list()) != 1 {
		t.Errorf("held once more: %v, %d loaded", err, len(table.list()))
	}
	table.release([]*plugin{b})
	table.closeDead()
	if err := in.Score(fill(t, 3)); err == nil || len(table.list()) != 0 {
		t.Errorf("after the last release: %v, %d loaded", err, len(table.list()))
	}
}

// TestTable_stress swaps generations of plugins under decisions: no
// decision meets a closed plugin.
func TestTable_stress(t *testing.T) {
	table := openTable(t)
	ctx, cancel := context.WithCancel(context.Background())
	var background, readers sync.WaitGroup
	background.Go(func() { _ = table.run(ctx) }) // ends with ctx
	type rules struct {
		plugins []*plugin
		scorer  scorer
	}
	var holder snapshot.Holder[rules]
	swap := func(i int) {
		p := acquire(t, table, "leastwork", "", i/2) // each twice: the second is taken over
		holder.Swap(&rules{[]*plugin{p}, scorer{newAdapter(p, &config.Config{}, 0, "blend")}},
			func(r *rules) { table.release(r.plugins) })
	}
	swap(2)
	stop := make(chan struct{})
	for range 4 {
		b := fill(t, 16)
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l := holder.Acquire()
				if err := l.Value().scorer.Score(b); err != nil {
					t.Error(err)
				}
				l.Release()
			}
		})
	}
	swaps := 300
	if testing.Short() {
		swaps = 60
	}
	for i := range swaps {
		swap(i + 3)
	}
	close(stop)
	readers.Wait()
	holder.Swap(nil, nil)
	cancel()
	background.Wait()
	table.closeDead()
	if n := len(table.list()); n != 0 {
		t.Errorf("%d plugins are still loaded", n)
	}
}

func BenchmarkAdapter(b *testing.B) {
	table := openTable(b)
	p := acquire(b, table, "leastwork", "", 0)
	defer table.release([]*plugin{p})
	in := fill(b, 64)
	for name, s := range map[string]scheduler.Scorer{"plugin": scorer{newAdapter(p, &config.Config{}, 0, "blend")},
		"native": scheduler.NewLeastWork("")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Score(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
