package replay

import (
	"fmt"
	"math/rand/v2"
)

// GeneratedBlock is the block size of generated traces in tokens.
const GeneratedBlock = 64

// Burst describes clients that share a system prompt: a closed loop each, all
// beginning within a fifth of a second.
type Burst struct {
	Clients      int     // default 48
	Turns        int     // of each client; default 8
	SystemTokens int     // default 10,000
	Think        float64 // mean pause of a client in seconds, exponential; 0 = none
}

// Generate returns the workload. Each turn adds 50 to 250 tokens of the user and the
// answer before, of 50 to 450 tokens. The same seed gives the same workload.
func (b Burst) Generate(seed uint64) *Trace {
	def(&b.Clients, 48)
	def(&b.Turns, 8)
	def(&b.SystemTokens, 10_000)
	r := rand.New(rand.NewPCG(seed, 5))
	t := &Trace{Name: "burst", BlockTokens: GeneratedBlock}
	shared := hashName(fmt.Sprint("burst ", seed))
	for c := range b.Clients {
		own := mix(shared, uint64(c)+1)
		k := Conversation{Name: fmt.Sprint("client ", c+1), Start: 0.2 * r.Float64()}
		var chain chainer
		var names []uint64
		tokens := b.SystemTokens
		for range b.Turns {
			tokens += 50 + r.IntN(200)
			output := 50 + r.IntN(400)
			for len(names) < tokens/GeneratedBlock {
				n := uint64(len(names))
				if len(names) < b.SystemTokens/GeneratedBlock {
					names = append(names, mix(shared, n))
				} else {
					names = append(names, mix(own, n))
				}
			}
			k.Requests = append(k.Requests, Request{Blocks: chain.add(names), Tokens: tokens, Output: output,
				Think: r.ExpFloat64() * b.Think})
			tokens += output
		}
		t.Conversations = append(t.Conversations, k)
	}
	t.sort()
	return t
}
