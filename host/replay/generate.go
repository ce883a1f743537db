package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Shape describes an agentic workload. The zero Shape has the statistics of
// the WEKA agentic trace's conversations of 8 to 30 requests, in blocks.
type Shape struct {
	Conversations int     // default 24
	MeanRequests  int     // per conversation; default 16
	Tools         int     // distinct shared prefixes (tool and system prompts); default 3
	SharedBlocks  int     // of the shared prefix; default 250
	FirstBlocks   int     // of the first request beyond the shared prefix; default 350
	GrowBlocks    int     // mean growth a request; default 45
	Rewrite       float64 // probability that a request replaces the context (compaction); default 0.03
}

func (s Shape) withDefaults() Shape {
	def(&s.Conversations, 24)
	def(&s.MeanRequests, 16)
	def(&s.Tools, 3)
	def(&s.SharedBlocks, 250)
	def(&s.FirstBlocks, 350)
	def(&s.GrowBlocks, 45)
	if s.Rewrite == 0 {
		s.Rewrite = 0.03
	}
	return s
}

// Generate returns an agentic multi-turn workload: long prompts that share the
// tools' prefix with some other conversations and grow by each answer and tool
// result. The same seed gives the same workload.
func Generate(seed uint64, s Shape) []Conversation {
	s = s.withDefaults()
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]Conversation, s.Conversations)
	for c := range out {
		name := fmt.Sprintf("generated_%d_%d", seed, c)
		out[c] = Conversation{Name: name, Requests: grow(r, s, name)}
	}
	return out
}

func grow(r *rand.Rand, s Shape, name string) []Request {
	var (
		own    = hashName(name)
		common = hashName(fmt.Sprint("tools ", r.IntN(s.Tools)))
		next   = uint64(0)
		shared []uint64
		chain  chainer
	)
	for i := range s.SharedBlocks {
		shared = append(shared, mix(common, uint64(i)))
	}
	add := func(b []uint64, n int) []uint64 {
		for range n {
			b = append(b, mix(own, next))
			next++
		}
		return b
	}
	n := max(2, int(float64(s.MeanRequests)*(0.5+r.Float64())))
	cur := add(append([]uint64(nil), shared...), int(float64(s.FirstBlocks)*(0.5+r.Float64())))
	var out []Request
	for range n {
		out = append(out, Request{
			Blocks: chain.add(cur),
			Output: 1 + int(r.ExpFloat64()*200),
			Think:  math.Min(60, r.ExpFloat64()*8),
		})
		if r.Float64() < s.Rewrite {
			cur = add(append([]uint64(nil), shared...), s.FirstBlocks)
			continue
		}
		cur = add(cur, 1+int(r.ExpFloat64()*float64(s.GrowBlocks)))
	}
	return out
}
