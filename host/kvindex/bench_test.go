package kvindex

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// loaded is an index after the events of a fleet, as benchmarks need it.
type loaded struct {
	x     *Index
	g     *generator
	qs    []query
	spare int // holders per endpoint
}

// apply applies an event to endpoint e.holder's first holder.
func (l *loaded) apply(e event) {
	h := e.holder * l.spare
	if e.remove {
		l.x.Remove(h, e.eng)
	} else {
		l.x.Store(h, e.parent, e.hasParent, e.eng, e.own) // orphans are counted
	}
}

// load fills an index with `pairs` pairs of 64 endpoints and then with 128
// interleaved chains of 8,192 blocks. spare is 1, or Tiers for holders as
// HolderOf numbers them.
func load(pairs, spare int, budget int64) *loaded {
	const endpoints = 64
	l := &loaded{x: New(Config{Holders: endpoints * spare, BudgetBytes: budget}), g: newGenerator(endpoints, pairs, 1),
		spare: spare}
	for l.g.pairs < pairs {
		l.g.step(l.apply)
	}
	l.qs = deepChains(endpoints, 128, rand.New(rand.NewPCG(3, 3)), l.apply)
	return l
}

// all is the set of the endpoints' first holders.
func (l *loaded) all() []uint64 {
	all := make([]uint64, l.x.Words())
	for h := 0; h < l.x.Holders(); h += l.spare {
		all[h>>6] |= 1 << (h & 63)
	}
	return all
}

// verify checks every answer.
func (l *loaded) verify(tb testing.TB) {
	tb.Helper()
	depth := make([]uint32, l.x.Holders())
	all := l.all()
	for _, q := range l.qs {
		l.x.Match(q.own, all, depth)
		for e, want := range q.want {
			if got := depth[e*l.spare]; got != want {
				tb.Fatalf("endpoint %d: depth %d, want %d", e, got, want)
			}
		}
	}
}

// compact asks for every chain and lets idle time follow.
func (l *loaded) compact() {
	depth := make([]uint32, l.x.Holders())
	all := l.all()
	for range 2 {
		for _, q := range l.qs {
			l.x.Match(q.own, all, depth)
			l.x.Maintain(time.Second)
		}
	}
}

// quantiles reports the median and the 99th percentile of durations in ns.
func quantiles(b *testing.B, ns []int64) {
	slices.Sort(ns)
	b.ReportMetric(float64(ns[len(ns)/2]), "p50-ns")
	b.ReportMetric(float64(ns[len(ns)*99/100]), "p99-ns")
}

// BenchmarkMatch looks chains up whose events arrived interleaved, before and
// after compaction, amid a million pairs. The clock (about 40 ns) is included.
func BenchmarkMatch(b *testing.B) {
	for _, spare := range []int{1, Tiers} {
		l := load(1_000_000, spare, 64<<20)
		l.verify(b)
		for _, state := range []string{"loose", "compacted"} {
			if state == "compacted" {
				l.compact()
				l.verify(b)
			}
			for _, blocks := range []int{8192, 1024} {
				b.Run(fmt.Sprintf("blocks=%d/endpoints=64/holders=%d/%s", blocks, l.x.Holders(), state), func(b *testing.B) {
					benchmarkMatch(b, l, blocks)
				})
			}
		}
	}
}

func benchmarkMatch(b *testing.B, l *loaded, blocks int) {
	depth, all := make([]uint32, l.x.Holders()), l.all()
	rng := rand.New(rand.NewPCG(1, 1))
	ns := make([]int64, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		q := l.qs[rng.IntN(len(l.qs))].own
		t := time.Now()
		l.x.Match(q[:blocks], all, depth)
		if len(ns) < cap(ns) {
			ns = append(ns, int64(time.Since(t)))
		}
	}
	quantiles(b, ns)
	steps := 0
	for _, q := range l.qs {
		steps += l.x.Steps(q.own[:blocks])
	}
	b.ReportMetric(float64(steps)/float64(len(l.qs)), "runs/path")
}

// BenchmarkUpdate applies events in steady state: stores and evictions.
func BenchmarkUpdate(b *testing.B) {
	for _, spare := range []int{1, Tiers} {
		b.Run(fmt.Sprintf("holders=%d", 64*spare), func(b *testing.B) {
			l := load(1_000_000, spare, 64<<20)
			l.g.limit = l.g.pairs / 64
			benchmarkUpdate(b, l)
		})
	}
}

func benchmarkUpdate(b *testing.B, l *loaded) {
	var evs []event
	i, ops := 0, 0
	var busy time.Duration
	for b.Loop() {
		if i == len(evs) {
			b.StopTimer()
			evs, i = evs[:0], 0
			for len(evs) < 20_000 {
				l.g.step(func(e event) { evs = append(evs, e) })
			}
			runtime.GC()
			b.StartTimer()
		}
		t := time.Now()
		l.apply(evs[i])
		busy += time.Since(t)
		ops += len(evs[i].eng)
		i++
	}
	b.ReportMetric(float64(ops)/busy.Seconds()/1e6, "Mblocks/s")
}

// BenchmarkFill fills an index and reports what it takes.
func BenchmarkFill(b *testing.B) { benchmarkFill(b, 1_000_000, 24<<20) }

func benchmarkFill(b *testing.B, pairs int, budget int64) {
	for _, mode := range []string{"agree", "disagree"} {
		b.Run(fmt.Sprintf("pairs=%d/%s", pairs, mode), func(b *testing.B) {
			var s Stats
			ops := 0
			var busy time.Duration
			for b.Loop() {
				x := New(Config{Holders: 64, BudgetBytes: budget})
				g := newGenerator(64, pairs, 1)
				for g.pairs < pairs {
					g.step(func(e event) {
						if mode == "disagree" {
							e = renamed(e)
						}
						t := time.Now()
						x.Store(e.holder, e.parent, e.hasParent, e.eng, e.own)
						busy += time.Since(t)
						ops += len(e.own)
					})
				}
				s = x.Stats()
			}
			b.ReportMetric(float64(s.Bytes)/float64(s.Pairs), "B/pair")
			b.ReportMetric(float64(s.Bytes)/float64(s.Blocks), "B/block")
			b.ReportMetric(float64(s.Pairs)/float64(s.Blocks), "holders/block")
			b.ReportMetric(float64(s.Blocks)/float64(s.Runs), "blocks/run")
			if s.Aliases > 0 {
				b.ReportMetric(float64(s.AliasBytes)/float64(s.Aliases), "B/alias")
			}
			b.ReportMetric(float64(ops)/busy.Seconds()/1e6, "Mblocks/s")
		})
	}
}

// renamed is the event of an engine with a hash seed of its own.
func renamed(e event) event {
	e.parent = mixHash(e.parent, uint64(e.holder))
	eng := make([]uint64, len(e.eng))
	for i := range eng {
		eng[i] = mixHash(e.eng[i], uint64(e.holder))
	}
	e.eng = eng
	return e
}

// BenchmarkPredictor adds a request of 512 blocks of which the first 256 are
// shared.
func BenchmarkPredictor(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := NewPredictor(Config{Holders: 64})
	prefix := chain(rng, 5, 256, 2)
	reqs := make([][]uint64, 4096)
	for i := range reqs {
		reqs[i] = append(slices.Clone(prefix), chain(rng, uint64(100+i), 256, 2)...)
	}
	i := 0
	for b.Loop() {
		if i%1024 == 0 {
			p.Rotate()
		}
		p.Add(i%64, reqs[i%len(reqs)])
		i++
	}
}
