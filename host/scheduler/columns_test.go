package scheduler

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
)

// reader is a scorer that reads some columns and returns them as the terms of its scores.
type reader struct {
	name string
	want ColumnSet
	look func(*Batch)
}

func (r reader) Name() string     { return r.name }
func (reader) Unit() Unit         { return UnitScore }
func (reader) Digest() string     { return "d" }
func (r reader) Wants() ColumnSet { return r.want }
func (r reader) Score(b *Batch) error {
	if r.look != nil {
		r.look(b)
	}
	clear(b.Scores)
	return nil
}

func (r reader) Explain(b *Batch) (names []string, terms []float32, err error) {
	for c, col := range b.More {
		if col != nil {
			names, terms = append(names, abi.Columns[c].Name), append(terms, col...)
		}
	}
	return names, terms, r.Score(b)
}

func set(cs ...Column) (s ColumnSet) {
	for _, c := range cs {
		s = s.Of(c)
	}
	return s
}

// TestColumns_wanted: the columns that an extension reads are filled, and no others.
func TestColumns_wanted(t *testing.T) {
	for name, want := range map[string]ColumnSet{"none": 0, "some": set(abi.ColPrice, abi.ColErrorRate, abi.ColRunning),
		"all": AllColumns} {
		r := newRig(t, 3, func(_ *StateConfig, c *Config) {
			c.Profiles[0].Scorers = []Weighted{{reader{name, want, func(b *Batch) {
				for c := range b.More {
					if (b.More[c] != nil) != (want & sourced).Has(Column(c)) {
						t.Errorf("%s: column %d is there: %v", name, c, b.More[c] != nil)
					}
				}
			}}, 1, false}}
		})
		req := r.request(words(1, 50))
		end(r.place(req))
		e, _ := r.sched.Explain("acme", req.ID)
		if e.Plugins[0].Fault != "" {
			t.Errorf("%s: %s", name, e.Plugins[0].Fault)
		}
		for c := range Column(abi.NumColumns) {
			if _, there := e.Candidates[2].Columns[abi.Columns[c].Name]; sourced.Has(c) && there != want.Has(c) &&
				c != abi.ColAffinityWeight { // which is always explained
				t.Errorf("%s: column %d (%s) is explained: %v", name, c, abi.Columns[c].Name, there)
			}
		}
	}
	// A scorer that does not declare what it reads gets all.
	r := newRig(t, 2, func(_ *StateConfig, c *Config) { c.Profiles[0].Scorers = []Weighted{{favour("a", 1), 1, false}} })
	req := r.request(words(1, 50))
	end(r.place(req))
	if e, _ := r.sched.Explain("acme", req.ID); len(e.Candidates[0].Columns) < bits.OnesCount64(uint64(sourced)) {
		t.Errorf("got %v", e.Candidates[0].Columns)
	}
}

// TestColumns_filtered: columns move with their candidates when a filter drops some, in
// the batch and in explain.
func TestColumns_filtered(t *testing.T) {
	var seen []float32
	look := reader{"r", set(abi.ColPrice, abi.ColKVCapacityTokens),
		func(b *Batch) { seen = slices.Clone(b.More[abi.ColPrice]) }}
	r := newRig(t, 1, func(_ *StateConfig, c *Config) {
		c.Profiles[0].Scorers = []Weighted{{look, 1, false}}
		c.Profiles[0].Filters = []Filter{filtering{drops: map[int]uint32{0: 1, 2: 1}}}
	})
	for i := range 3 {
		id, err := r.store.Add(endpoint.Info{URL: "http://x", Addr: fmt.Sprint("x", i), Pool: "main", Price: float32(10 + i)})
		if err != nil {
			t.Fatal(err)
		}
		r.store.Update(id, func(s *endpoint.State) {
			s.Ready, s.Trust, s.CacheBlocks, s.BlockTokens = true, 1, uint32(i),
				16
		})
	}
	req := r.request(words(1, 50))
	end(r.place(req))
	e, _ := r.sched.Explain("acme", req.ID)
	if !slices.Equal(seen, []float32{10, 12}) {
		t.Errorf("the scorer saw prices %v, want those of endpoints 1 and 3", seen)
	}
	for i, c := range e.Candidates {
		price, terms := c.Columns["price"]
		if dropped := i%2 == 0; terms == dropped || terms &&
			(price != float32(9+i) || c.Columns["kv_capacity_tokens"] != float32(16*(i-1)) ||
				c.Scores["r"].Terms["price"] != price) {
			t.Errorf("endpoint %d: %v %v", i, c.Columns, c.Scores)
		}
	}
}

// TestColumns_overwritten: explain has terms and columns as long as they are kept, and then
// leaves them out; it never has another decision's.
func TestColumns_overwritten(t *testing.T) {
	price := float32(0)
	r := newRig(t, 0, func(s *StateConfig, c *Config) {
		s.TraceBytes = 4096 // 1,024 numbers
		c.Profiles[0].Scorers = []Weighted{{reader{"r", set(abi.ColErrorRate, abi.ColPrice, abi.ColSpot), nil}, 1, false}}
	})
	var ids []endpoint.ID
	add := func() {
		price++
		for _, id := range ids {
			r.store.Remove(id)
		}
		ids = ids[:0]
		for i := range 17 {
			id, err := r.store.Add(endpoint.Info{URL: "u", Addr: fmt.Sprint(price, i), Pool: "main", Price: price})
			if err != nil {
				t.Fatal(err)
			}
			r.store.Update(id, func(s *endpoint.State) { s.Ready, s.Trust = true, 1 })
			ids = append(ids, id)
		}
	}
	var reqs []*Request
	for range 100 {
		add()
		reqs = append(reqs, r.request(words(1, 20)))
		end(r.place(reqs[len(reqs)-1]))
	}
	kept := 0
	for i, req := range reqs {
		e, ok := r.sched.Explain("acme", req.ID)
		if !ok {
			continue
		}
		for _, c := range e.Candidates {
			p, terms := c.Columns["price"]
			if term, ok := c.Scores["r"].Terms["price"]; terms && p != float32(i+1) || ok && term != p {
				t.Fatalf("decision %d has a price of %v, %v", i, p, term)
			}
			if terms {
				kept++
			}
		}
	}
	if kept/17 < 15 || kept/17 > 20 { // 1,024 numbers are 20 decisions of 17 × 3
		t.Errorf("columns of %d decisions are kept", kept/17)
	}
}

func TestBatch_CopyTo_more(t *testing.T) {
	var b, c Batch
	b.resize(20)
	b.more(set(abi.ColPrice, abi.ColKVCachedTokens), 20)
	for i := range 20 {
		b.More[abi.ColPrice][i], b.More[abi.ColKVCachedTokens][i] = float32(i), float32(100+i)
	}
	for range 2 {
		b.CopyTo(&c)
		if !slices.Equal(c.More[abi.ColPrice], b.More[abi.ColPrice]) ||
			!slices.Equal(c.More[abi.ColKVCachedTokens], b.More[abi.ColKVCachedTokens]) || c.More[abi.ColSpot] != nil {
			t.Fatalf("got %v", c.More)
		}
		b.More[abi.ColPrice][3]++
		if c.More[abi.ColPrice][3] == b.More[abi.ColPrice][3] {
			t.Fatal("the copy shares memory")
		}
	}
	b.more(set(abi.ColSpot), 20)
	b.CopyTo(&c)
	if c.More[abi.ColPrice] != nil || len(c.More[abi.ColSpot]) != 20 {
		t.Errorf("got %v", c.More)
	}
	b.more(AllColumns, 500)
	for i, col := range b.More {
		if sourced.Has(Column(i)) != (len(col) == 500) {
			t.Errorf("column %d has %d", i, len(col))
		}
	}
}

// TestColumns_estimates: an endpoint without a learned rate is assumed to be as fast as
// the others on average; if none has a rate, the estimate is 0.
func TestColumns_estimates(t *testing.T) {
	r := newRig(t, 3, func(_ *StateConfig, c *Config) {
		c.Profiles[0].Scorers = []Weighted{{reader{"r", set(abi.ColEstPrefillMS, abi.ColEstQueueMS), nil}, 1, false}}
	})
	columns := func() []Candidate {
		req := r.request(words(r.ids+1, 1000))
		end(r.place(req))
		e, _ := r.sched.Explain("acme", req.ID)
		return e.Candidates
	}
	if c := columns()[0].Columns; c["est_prefill_ms"] != 0 || c["est_queue_ms"] != 0 {
		t.Errorf("got %v before anything was learned", c)
	}
	loads := r.store.Load().Loads
	for range 8 {
		loads[0].ObservePrefill(2000, time.Second)
		loads[1].ObservePrefill(4000, time.Second)
	}
	loads[2].Charge("x", 300, 0)
	for i, want := range [][2]float32{{500, 0}, {250, 0}, {1000 / 3., 100}} {
		c := columns()[i].Columns
		if math.Abs(float64(c["est_prefill_ms"]-want[0])) > 0.1 || math.Abs(float64(c["est_queue_ms"]-want[1])) > 0.1 {
			t.Errorf("endpoint %d: got %v, %v, want %v", i, c["est_prefill_ms"], c["est_queue_ms"], want)
		}
	}
}

// TestPlacement_decodeRate: the time between tokens is learned from streamed answers with
// reported tokens, not from others.
func TestPlacement_decodeRate(t *testing.T) {
	r := newRig(t, 1, nil)
	load := r.store.Load().Loads[0]
	run := func(stream bool, o exchange.Outcome) {
		for range 8 {
			req := r.request(words(1, 20))
			req.API.Stream = stream
			p := r.place(req)
			p.FirstToken()
			p.Done(o)
		}
	}
	o := exchange.Outcome{Status: 200, TTFT: 50 * time.Millisecond, E2E: 250 * time.Millisecond, HasUsage: true,
		OutputTokens: 11, End: exchange.EndComplete}
	run(false, o)
	run(true, exchange.Outcome{Status: 200, TTFT: o.TTFT, E2E: o.E2E, OutputTokens: 11, End: exchange.EndComplete})
	run(true, exchange.Outcome{Status: 200, E2E: o.E2E, HasUsage: true, OutputTokens: 11, End: exchange.EndComplete})
	run(true, exchange.Outcome{Status: 200, TTFT: o.TTFT, E2E: o.E2E, HasUsage: true, OutputTokens: 1,
		End: exchange.EndComplete})
	if got := load.ITLMillis(); got != 0 {
		t.Errorf("got %v ms", got)
	}
	run(true, o)
	if got := load.ITLMillis(); got != 20 {
		t.Errorf("got %v ms, want 20", got)
	}
}

// TestColumns_stress reads and changes all sources of columns at the same time.
func TestColumns_stress(t *testing.T) {
	r := newRig(t, 4, func(_ *StateConfig, c *Config) {
		c.Profiles[0].Scorers = []Weighted{{reader{"r", AllColumns, func(b *Batch) {
			for c, value := range sources {
				if value == nil {
					continue
				}
				if len(b.More[c]) != b.N || !finite(b.More[c]) {
					panic(fmt.Sprint("column ", c, " of ", b.N, ": ", b.More[c]))
				}
			}
		}}, 1, false}}
		c.Profiles[0].Filters = []Filter{filtering{drops: map[int]uint32{2: 1}, err: nil}, filtering{err: errors.New("oh")}}
	})
	var wg sync.WaitGroup
	reqs := make(chan *Request, 400)
	for range cap(reqs) {
		req := r.request(words(r.ids%7, 100))
		req.API.Stream, req.Session = true, fmt.Sprint(r.ids%5)
		reqs <- req
	}
	close(reqs)
	for i := range 4 {
		wg.Go(func() {
			for req := range reqs {
				p, err := r.sched.Schedule(req)
				if err != nil {
					continue // ejected or not ready at this moment
				}
				p.FirstToken()
				p.Done(exchange.Outcome{Status: []int{200, 500}[len(req.ID)%2], TTFT: 1, E2E: time.Second, HasUsage: true,
					OutputTokens: 9, End: exchange.EndComplete})
				r.sched.Explain("acme", req.ID)
			}
		})
		wg.Go(func() {
			for k := range 100 {
				r.store.Update(endpoint.ID(i), func(s *endpoint.State) {
					s.Ready, s.CachedTokens, s.EventAt, s.ScrapedAt = k%9 != 0, uint32(k), time.Now(), time.Now()
				})
			}
		})
	}
	wg.Wait()
	r.idle()
}
