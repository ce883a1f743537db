package plugins

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// TestOutcomes: a batch lists the current endpoints; outcomes of an earlier epoch of a
// slot are omitted.
func TestOutcomes(t *testing.T) {
	store := endpoint.NewStore()
	add := func(url string) endpoint.ID {
		id, err := store.Add(endpoint.Info{URL: url, Addr: url, Pool: "p"})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	a, b, c := add("a"), add("b"), add("c")
	old := store.Load().Info(b).Epoch
	store.Remove(a)
	store.Remove(b)
	if add("d") == c {
		t.Fatal("a slot in use was given away")
	}
	snap := store.Load()
	gen := snap.Info(c).Epoch
	now := time.UnixMilli(5000)
	at := now.Add(-20 * time.Millisecond)
	var batch outcomes
	for range 2 { // the second time in used memory
		batch.reset()
		batch.add(endedOf(&scheduler.Observation{Endpoint: c, Epoch: gen, PromptTokens: 70, PredictedCached: 16,
			Streamed: true, Outcome: exchange.Outcome{
				Status: 200, TTFT: 10 * time.Millisecond, E2E: 40 * time.Millisecond, HasUsage: true, PromptTokens: 80,
				OutputTokens: 4, HasCached: true, CachedTokens: 32, End: exchange.EndComplete}}, at))
		batch.add(endedOf(&scheduler.Observation{Endpoint: b, Epoch: old,
			Outcome: exchange.Outcome{Status: 200, End: exchange.EndComplete}}, at))
		if n := batch.add(endedOf(&scheduler.Observation{Endpoint: c, Epoch: gen, PromptTokens: 70,
			Outcome: exchange.Outcome{End: exchange.EndDied}}, at)); n != 3 {
			t.Errorf("%d outcomes, want 3", n)
		}
		if gone := batch.fill(snap, now); gone != 1 || batch.out.N != 2 || batch.out.NowMS != 5000 {
			t.Fatalf("%d gone, %+v", gone, batch.out)
		}
	}
	o := &batch.out
	row := slices.Index(o.Endpoints, abi.EndpointID(uint32(c), gen))
	if len(o.Endpoints) != 2 || row < 0 {
		t.Fatalf("endpoints %v", o.Endpoints)
	}
	for col, want := range map[int][]float32{
		abi.OutTTFTMS: {10, 0}, abi.OutE2eMS: {40, 0}, abi.OutITLMS: {10, 0}, abi.OutPromptTokens: {80, 70},
		abi.OutCachedTokens:    {32, -1},
		abi.OutPredictedTokens: {16, 0}, abi.OutOutputTokens: {4, 0}, abi.OutFailed: {0, 1}, abi.OutAgeMS: {20, 20},
	} {
		if got := o.Columns[col]; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", abi.OutcomeColumns[col].Name, got, want)
		}
	}
	for col, want := range map[int][]uint32{
		abi.OutEndpointRow: {uint32(row), uint32(row)}, abi.OutEndpointID: {o.Endpoints[row], o.Endpoints[row]},
		abi.OutStatus: {200, 0},
	} {
		if got := o.U32[col]; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", abi.OutcomeColumns[col].Name, got, want)
		}
	}
	for i, c := range abi.OutcomeColumns {
		if len(o.Columns[i])+len(o.U32[i]) != o.N {
			t.Errorf("column %s is not filled", c.Name)
		}
	}
}

// TestOffPath_full: outcomes beyond the queue are dropped and counted; none are queued
// without an observer.
func TestOffPath_full(t *testing.T) {
	o := newOffPath(&Manager{now: time.Now})
	x := &scheduler.Observation{}
	o.offer(x)
	if len(o.ended) != 0 || o.ends.Load() != 1 {
		t.Errorf("%d queued, %d ended", len(o.ended), o.ends.Load())
	}
	o.wanted.Store(true)
	for range queuedOutcomes + 3 {
		o.offer(x)
	}
	if len(o.ended) != queuedOutcomes || o.full.Load() != 3 {
		t.Errorf("%d queued, %d dropped, want 3", len(o.ended), o.full.Load())
	}
}

// TestOffPath_run: outcomes reach a plugin within flushAfter, and at once when there are
// flushAt; the column that it publishes is in the next batch of its scorer, for the
// endpoints of the outcomes.
func TestOffPath_run(t *testing.T) {
	code, err := os.ReadFile("../../examples/learned-rate/learned_rate.wasm")
	if err != nil {
		t.Fatal(err)
	}
	table := openTable(t)
	c := config.Plugin{Name: "rate"}
	p, err := table.acquire(context.Background(), keyOf(&c, moduleOf(fromFile, code, nil).digest, ""), fromFile, code,
		time.Now(), trialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	store := endpoint.NewStore()
	b := fill(t, 3)
	for i := range b.N {
		if b.Endpoints[i], err = store.Add(endpoint.Info{URL: string(rune('a' + i)), Addr: string(rune('a' + i)),
			Pool: "p"}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range b.N {
		b.Infos[i] = store.Load().Info(b.Endpoints[i])
		b.Uncached[i], b.Outstanding[i] = 1000, 0
	}
	in := scorer{newAdapter(p, &config.Config{}, 0, "blend")}
	waits := func(want ...float32) {
		t.Helper()
		if err := in.Score(b); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.Scores, want) {
			t.Errorf("got %v, want %v", b.Scores, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		o := newOffPath(&Manager{now: time.Now, endpoints: store, table: table,
			rules: fixed{&Set{observers: []*plugin{p}, plugins: []*plugin{p, p}}}})
		o.wanted.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := o.run(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		report := func(i int, rate int) {
			o.offer(&scheduler.Observation{Endpoint: b.Endpoints[i], Epoch: b.Infos[i].Epoch, PromptTokens: 100 * rate,
				Outcome: exchange.Outcome{Status: 200, TTFT: 100 * time.Millisecond, E2E: time.Second, End: exchange.EndComplete}})
		}
		report(1, 50)
		synctest.Wait()
		waits(-100, -100, -100) // the default, 10 tokens/ms
		time.Sleep(flushAfter)
		synctest.Wait()
		waits(-100, -20, -100)
		for range flushAt {
			report(2, 100)
		}
		synctest.Wait()
		waits(-100, -20, -10)
		if n := p.observed.Load(); n != 1+flushAt || p.unobserved.Load() != 0 || o.full.Load() != 0 || o.gone.Load() != 0 {
			t.Errorf("%d observed, %d not", n, p.unobserved.Load())
		}
		cancel()
		<-done
	})
}

// newTestShadow makes the shadow of a name that is a plugin itself.
func newTestShadow(t testing.TB, table *table, name string, number int) *shadow {
	p := acquire(t, table, name, "", number)
	return &shadow{name: name, digest: p.Digest(), plugins: map[string]*plugin{"": p}, adapters: map[*scoring]*adapter{}}
}

// TestShadows_full: decisions beyond the room there is are skipped, and each
// job comes back.
func TestShadows_full(t *testing.T) {
	table := openTable(t)
	var s shadows
	s.init()
	sh := newTestShadow(t, table, "leastwork", 0)
	s.set("leastwork", sh)
	places := []*scoring{{pluginKey{name: "other"}, &config.Config{}, 0, "blend"},
		{pluginKey{name: "leastwork"}, &config.Config{}, 0, "blend"}}
	b := fill(t, 16)
	if err := scheduler.NewLeastWork("").Score(b); err != nil {
		t.Fatal(err)
	}
	s.offer(places, b, [][]float32{b.Scores, nil})
	for range shadowJobs + 2 {
		s.offer(places, b, [][]float32{nil, b.Scores})
	}
	if n := sh.skipped.Load(); n != 2 || len(s.jobs) != shadowJobs {
		t.Errorf("%d skipped, %d wait", n, len(s.jobs))
	}
	clear(b.Uncached) // a job has a copy
	for range shadowJobs {
		s.score(<-s.jobs)
	}
	if st := sh.status(); st.Decisions != shadowJobs || st.RankAgreement != 1 || st.Elsewhere != 0 || st.Faults != 0 ||
		len(s.free) != shadowJobs {
		t.Errorf("%+v, %d free", st, len(s.free))
	}
}

// TestShadows_stress offers decisions while shadows come and go.
func TestShadows_stress(t *testing.T) {
	table := openTable(t)
	var s shadows
	s.init()
	place := &scoring{pluginKey{name: "leastwork"}, &config.Config{}, 0, "blend"}
	done := make(chan struct{})
	var actor, senders sync.WaitGroup
	actor.Go(func() {
		for {
			select {
			case j := <-s.jobs:
				s.score(j)
			case <-done:
				return
			}
		}
	})
	stop := make(chan struct{})
	for i := range 3 {
		b := fill(t, 8+i)
		senders.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.offer([]*scoring{place}, b, [][]float32{b.Scores})
				}
			}
		})
	}
	for i := range 40 {
		sh := newTestShadow(t, table, "leastwork", i+1)
		s.set("leastwork", sh)
		_ = s.of("leastwork").status()
		if i%3 == 0 {
			s.set("leastwork", nil)
		}
	}
	close(stop)
	senders.Wait()
	close(done)
	actor.Wait()
	s.close()
	if s.active.Load() != nil || len(s.free)+len(s.jobs) != shadowJobs {
		t.Errorf("%d free, %d wait, want %d in all", len(s.free), len(s.jobs), shadowJobs)
	}
}
