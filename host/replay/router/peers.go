package router

import (
	"time"

	"github.com/kvasir-router/kvasir/host/scheduler"
)

// peers are the policies, in the order of tables.
var peers = []Peer{
	{Name: "roundrobin", Title: "round robin", make: roundRobin},
	{Name: "random", Title: "random", make: random},
	{Name: "leastinflight", Title: "least in flight", make: leastInflight},
	{Name: "p2c", Title: "power of two choices", make: powerOfChoices,
		Params: []Param{{"choices", 2, []float64{2, 3, 4}}}},
	{Name: "sticky", Title: "sticky sessions", make: sticky},
	{Name: "stickyspill", Title: "sticky sessions that spill", make: stickySpill, Params: []Param{
		{"ratio", 2, []float64{1.25, 1.5, 2, 3}}, {"slack", 8192, []float64{2048, 8192, 32768}}}},
	{Name: "longestprefix", Title: "longest prefix", make: longestPrefix},
	{Name: "smetric", Title: "our implementation of SMetric", make: smetric, Params: []Param{
		{"hit_ratio", 0.5, []float64{0.25, 0.5, 0.75}}, {"slo_ms", 2000, []float64{500, 1000, 2000, 4000}}}},
	{Name: "lmetric", Title: "our implementation of LMETRIC", make: lmetric,
		Params: []Param{{"queued", 1, []float64{0, 0.5, 1}}}},
	{Name: "e2", Title: "our implementation of Preble E2", make: preble, Params: []Param{
		{"exploit", 1, []float64{0.5, 1, 2}}, {"decode_ms", 1.56, []float64{0, 1.56, 5, 20}},
		{"rebalance", 1.5, []float64{0, 1.5, 3}}}},
	{Name: "llmd", Title: "our implementation of llm-d 2/2/3", make: llmd, Scrape: llmdScrape, Params: []Param{
		{"queue", 2, []float64{1, 2, 4}}, {"kv", 2, []float64{1, 2, 4}}, {"prefix", 3, []float64{2, 3, 6}}}},
	{Name: "sglang", Title: "our implementation of SGLang cache-aware", make: sglang, Params: []Param{
		{"threshold", 0.5, []float64{0.3, 0.5, 0.8}}, {"abs", 32, []float64{4, 8, 16, 32, 64}},
		{"rel", 1.1, []float64{1.05, 1.1, 1.5}}}},
	{Name: "dynamo", Title: "our implementation of Dynamo's KV router", make: dynamo, Params: []Param{
		{"prefill", 1, []float64{1, 2, 4, 10, 30}}, {"requests", 0, []float64{0, 256, 2048}}}},
}

func roundRobin(constants) chooser {
	next := -1
	return chooserFunc(func(v *view) int {
		next = (next + 1) % v.n
		return next
	})
}

func random(constants) chooser {
	return chooserFunc(func(v *view) int { return v.rng.IntN(v.n) })
}

func leastInflight(constants) chooser {
	return chooserFunc(func(v *view) int { return v.least(v.inflight) })
}

func powerOfChoices(c constants) chooser {
	n := int(c["choices"])
	return chooserFunc(func(v *view) int {
		best := v.rng.IntN(v.n)
		for range n - 1 {
			if i := v.rng.IntN(v.n); v.inflight(i) < v.inflight(best) {
				best = i
			}
		}
		return best
	})
}

// stickyTable remembers where sessions are. A session that is not known begins where
// the fewest requests are in flight.
type stickyTable map[uint64]int

func sticky(constants) chooser {
	t := stickyTable{}
	return chooserFunc(func(v *view) int {
		at, ok := t[v.r.Session]
		if !ok {
			at = v.least(v.inflight)
			t[v.r.Session] = at
		}
		return at
	})
}

// stickySpill moves a session whose engine has more than ratio times the mean
// outstanding work, and slack tokens, to the engine with the least work.
func stickySpill(c constants) chooser {
	t := stickyTable{}
	ratio, slack := c["ratio"], c["slack"]
	return chooserFunc(func(v *view) int {
		sum := 0.0
		for i := range v.n {
			sum += v.outstanding(i)
		}
		at, ok := t[v.r.Session]
		if !ok || v.outstanding(at) > ratio*sum/float64(v.n)+slack {
			at = v.least(func(i int) float64 {
				return v.outstanding(i) + float64(v.uncached[i]) + 1e-3*v.inflight(i)
			})
			t[v.r.Session] = at
		}
		return at
	})
}

func longestPrefix(constants) chooser {
	return chooserFunc(func(v *view) int {
		return v.least(func(i int) float64 { return float64(v.uncached[i]) + 1e-4*v.inflight(i) })
	})
}

// smetric follows vllm-project/router, src/policies/smetric.rs at 8bef7312: a request that
// continues a conversation goes to the engine with the longest match, if the match is
// more than a share of what the client has sent before and the expected time to the first
// token is within the objective (or is so nowhere); others go where the product of
// pending prefill work and requests is least. The first engine wins ties, counted from one
// that changes with every request. Where it counts characters, this counts tokens; where it
// learns the rate of prefill, this knows it.
func smetric(c constants) chooser {
	ratio, slo, start := c["hit_ratio"], c["slo_ms"], -1
	return chooserFunc(func(v *view) int {
		start++
		least, longest, meets := -1, -1, false
		cost := func(i int) float64 { return v.queueMs(i) + v.ownMs(i) }
		for offset := range v.n {
			i := (start + offset) % v.n
			meets = meets || cost(i) <= slo
			if least < 0 || cost(i)*v.inflight(i) < cost(least)*v.inflight(least) {
				least = i
			}
			if longest < 0 || v.matched[i] > v.matched[longest] {
				longest = i
			}
		}
		if v.r.Continues && float64(v.matched[longest]) > ratio*float64(v.r.Repeats) && (!meets || cost(longest) <= slo) {
			return longest
		}
		return least
	})
}

// lmetric is [scheduler.LMetricCost] with a weight of queued tokens.
func lmetric(c constants) chooser {
	queued := c["queued"]
	return chooserFunc(func(v *view) int {
		return v.least(func(i int) float64 {
			return scheduler.LMetricCost(queued*v.outstanding(i), float64(v.uncached[i]), v.inflight(i))
		})
	})
}

// preble follows arXiv 2407.00023 and preble/global_scheduler_with_time.py: a request
// of which more is cached than not goes to the least loaded holder of the longest
// match, unless that has rebalance times the least load; others go where their
// prefill, the work before it and the running decodes take the least time.
func preble(c constants) chooser {
	exploit, decode, rebalance := c["exploit"], c["decode_ms"], c["rebalance"]
	return chooserFunc(func(v *view) int {
		most, least := 0, v.outstanding(0)
		for i := range v.n {
			most, least = max(most, v.matched[i]), min(least, v.outstanding(i))
		}
		cost := func(i int) float64 { return v.queueMs(i) + v.ownMs(i) + decode*v.inflight(i) }
		if float64(most) > exploit*float64(v.r.Prompt-most) {
			at := v.least(func(i int) float64 {
				if v.matched[i] < most {
					return 1e18 + v.outstanding(i)
				}
				return v.outstanding(i)
			})
			if rebalance == 0 || v.outstanding(at) <= rebalance*least+float64(v.r.Prompt) {
				return at
			}
		}
		return v.least(cost)
	})
}

// llmdScrape is how often llm-d's endpoint picker reads the engines' figures
// (--refresh-metrics-interval).
const llmdScrape = 50 * time.Millisecond

// llmd is llm-d's scheduler with the weights of its guide for precise prefix caching:
// queue depth 2, KV memory 2, prefix 3, the queue scaled to [0, 1] among the engines.
func llmd(c constants) chooser {
	queue, kv, prefix := c["queue"], c["kv"], c["prefix"]
	return chooserFunc(func(v *view) int {
		least, most := v.figures[0].Waiting, v.figures[0].Waiting
		for i := range v.figures {
			least, most = min(least, v.figures[i].Waiting), max(most, v.figures[i].Waiting)
		}
		return v.least(func(i int) float64 {
			short := 1.0
			if most > least {
				short = float64(most-v.figures[i].Waiting) / float64(most-least)
			}
			return -(queue*short + kv*(1-v.figures[i].KVUsage) + prefix*float64(v.matched[i])/float64(v.r.Prompt))
		})
	})
}

// sglang follows SGLang's router: the longest match if it is more than a share of the
// prompt, else the least loaded; the least loaded, too, while the loads differ by more
// than abs requests and a factor.
func sglang(c constants) chooser {
	threshold, abs, rel := c["threshold"], c["abs"], c["rel"]
	return chooserFunc(func(v *view) int {
		least, most := v.inflight(0), v.inflight(0)
		for i := range v.n {
			least, most = min(least, v.inflight(i)), max(most, v.inflight(i))
		}
		if most-least > abs && most > rel*least {
			return v.least(v.inflight)
		}
		best := v.least(func(i int) float64 { return float64(v.uncached[i]) })
		if float64(v.matched[best]) > threshold*float64(v.r.Prompt) {
			return best
		}
		return v.least(v.inflight)
	})
}

// dynamo is [scheduler.DynamoCost] with a weight of tokens to prefill, and a cost in
// tokens of each request in flight.
func dynamo(c constants) chooser {
	prefill, requests := c["prefill"], c["requests"]
	return chooserFunc(func(v *view) int {
		return v.least(func(i int) float64 {
			queued := prefill * (v.outstanding(i) + float64(v.uncached[i]))
			return scheduler.DynamoCost(queued, v.kv(i)) + requests*v.inflight(i)
		})
	})
}
