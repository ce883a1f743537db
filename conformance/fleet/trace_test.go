package fleet

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
	"github.com/kvasir-router/kvasir/host/replay"
)

// workload returns a fixed slice of the recorded agentic trace: the first 12
// conversations of 8 to 24 requests whose prompts have at most 1,600 blocks.
// If the recording is absent, it returns a generated workload of the same shape.
func workload(t testing.TB) []replay.Conversation {
	t.Helper()
	dir := os.Getenv("KVASIR_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "traces")
	}
	cs, err := replay.OpenWEKA(filepath.Join(dir, "weka_cc_agentic_even.jsonl.gz"),
		replay.Filter{MinRequests: 8, MaxRequests: 24, MaxBlocks: 1600, Conversations: 12})
	if err == nil {
		t.Logf("recorded trace: %d conversations", len(cs))
		return cs
	}
	t.Logf("no recorded trace (%v): using a generated one of the same shape", err)
	return replay.Generate(1, replay.Shape{Conversations: 12})
}

// ids returns the tokens of a trace block, which is one engine block.
func ids(dst []int, block uint64) []int {
	r := rand.New(rand.NewPCG(block, 16))
	for range blockTokens {
		dst = append(dst, 300+r.IntN(3000))
	}
	return dst
}

// result is the result of one run of a workload.
type result struct {
	hit, total           int // blocks, as the engines report them
	idealHit, idealTotal int // blocks, computed from the trace alone
	failed               int
}

func (r result) ratio() float64 { return float64(r.hit) / float64(r.total) }

// ofIdeal returns the share of the attainable hits, in [0, 1].
func (r result) ofIdeal() float64 {
	return r.ratio() / (float64(r.idealHit) / float64(r.idealTotal))
}

// play sends every conversation with `clients` concurrent clients. Each request follows
// the answer to the previous one. onAnswer may be nil.
func play(t *testing.T, url, model string, cs []replay.Conversation, clients int, onAnswer func()) result {
	var (
		mu    sync.Mutex
		res   result
		order [][]uint64
		wg    sync.WaitGroup
		next  = make(chan replay.Conversation)
	)
	for range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for c := range next {
				for _, q := range c.Requests {
					var prompt []int
					for _, b := range q.Blocks {
						prompt = ids(prompt, b)
					}
					prompt = append(prompt, 299) // a block is reused only when a token follows it
					mu.Lock()
					order = append(order, q.Blocks)
					mu.Unlock()
					a, err := harness.Post(url+"/v1/completions", "",
						map[string]any{"model": model, "prompt": prompt, "max_tokens": 1 + min(q.Output, 24)})
					mu.Lock()
					res.total += len(q.Blocks)
					if err != nil || a.Status != 200 {
						res.failed++
						if res.failed < 4 {
							t.Logf("request failed: %v %+v", err, a)
						}
					} else if got, err := a.Completion(); err != nil {
						t.Error(err)
					} else {
						n, _ := got.Usage.Cached()
						res.hit += n / blockTokens
					}
					mu.Unlock()
					if onAnswer != nil {
						onAnswer()
					}
				}
			}
		}()
	}
	for _, c := range cs {
		next <- c
	}
	close(next)
	wg.Wait()
	res.idealHit, res.idealTotal = replay.Ideal(order)
	return res
}

// TestAgenticLoad runs the workload with four clients on eight engines of 20,000 blocks
// each: enough for all blocks that the workload repeats, too few to hold all of them on
// one engine. The same load with least work without locality, with round robin and with
// trust 0 shows that locality causes the hits.
func TestAgenticLoad(t *testing.T) {
	cs := workload(t)
	run := func(profile string) result {
		es := startEngines(t, 8, "--preset", "instant", "--cache-blocks", "20000")
		r := serve(t, es, profile)
		defer func() {
			r.Kill()
			for _, e := range es {
				e.Kill()
			}
		}()
		res := play(t, r.URL, es[0].Model, cs, 4, nil)
		t.Logf("%s: hit %.3f of blocks, ideal %.3f, %.3f of ideal, %d requests failed", profile, res.ratio(),
			float64(res.idealHit)/float64(res.idealTotal), res.ofIdeal(), res.failed)
		if res.failed > 0 {
			t.Errorf("%s: %d requests failed", profile, res.failed)
		}
		return res
	}
	own := run("{name: default, holdout: 0}")
	robin := run("{name: default, holdout: 0, scorers: [{builtin: roundrobin}]}")
	least := run("{name: default, holdout: 1}")
	distrust := run("{name: default, holdout: 0, trust: \"off\"}")
	if own.ofIdeal() < 0.90 {
		t.Errorf("hit is %.3f of ideal, want 0.90", own.ofIdeal())
	}
	if robin.ofIdeal() > own.ofIdeal()-0.15 {
		t.Errorf("round robin reaches %.3f of ideal, ours %.3f: no gain", robin.ofIdeal(), own.ofIdeal())
	}
	// Two runs without locality differ by up to a tenth: it is random which engine has
	// the least work.
	if d := distrust.ofIdeal(); d > least.ofIdeal()+0.12 || d < robin.ofIdeal()-0.12 || d > own.ofIdeal()-0.15 {
		t.Errorf("with trust off %.3f of ideal, least work %.3f, round robin %.3f, ours %.3f: want the level of "+
			"the profiles without locality", d, least.ofIdeal(), robin.ofIdeal(), own.ofIdeal())

	}
}

// TestHottestEngineDies kills the engine with the most work in the middle of the load.
// No request whose first byte has not arrived is lost.
func TestHottestEngineDies(t *testing.T) {
	es := startEngines(t, 4, "--preset", "instant", "--cache-blocks", "20000")
	r := serve(t, es, "{name: default, holdout: 0}")
	cs := workload(t)
	var once sync.Once
	var n int
	var mu sync.Mutex
	res := play(t, r.URL, es[0].Model, cs, 8, func() {
		mu.Lock()
		n++
		late := n > 40
		mu.Unlock()
		if !late {
			return
		}
		once.Do(func() {
			hot, most := es[0], -1
			for _, e := range es {
				if k := len(harness.SimRequests(t, e.URL)); k > most {
					hot, most = e, k
				}
			}
			t.Logf("killing %s after %d requests there", hot.URL, most)
			hot.Kill()
		})
	})
	t.Logf("%d answers, %d failed, %.3f of ideal", n, res.failed, res.ofIdeal())
	if n <= 40 {
		t.Fatalf("the load ended after %d answers, before the kill", n)
	}
	if res.failed > 0 {
		t.Errorf("%d requests were lost", res.failed)
	}
	select {
	case <-r.Ended():
		t.Error("the router stopped")
	case <-time.After(0):
	}
}
