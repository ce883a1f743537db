//go:build !race

package elastic

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/replay"
)

// flat is even demand with the noise of real arrivals: they are at random, and
// each prompt and answer is up to 30 % longer or shorter than the mean.
func flat(rate float64, d time.Duration, seed uint64) Load {
	n := int(rate * d.Seconds())
	l := make([]replay.Conversation, n)
	r := newNoise(seed)
	for i := range l {
		blocks := []uint64{uint64(4 * i), uint64(4*i + 1), uint64(4*i + 2), uint64(4*i + 3)}
		l[i] = replay.Conversation{Requests: []replay.Request{{Blocks: blocks, Tokens: r(1536), Output: r(200)}}}
	}
	Poisson(l, rate, seed)
	return Load{Conversations: l, BlockTokens: 512}
}

// TestRun_flatNoise counts changes of size in the last hour of 90 minutes.
func TestRun_flatNoise(t *testing.T) {
	for _, rate := range []float64{7, 11} {
		for seed := range uint64(2) {
			c := Config{Load: flat(rate, 90*time.Minute, seed), Engine: H100x8B, Size: 3, Cold: time.Minute,
				Scaling: &autoscale.Config{Min: 1, Max: 24}}
			whole, err := Run(c)
			if err != nil {
				t.Fatal(err)
			}
			n := len(c.Load.Conversations)
			c.Load.Conversations = c.Load.Conversations[:n/3]
			begin, err := Run(c)
			if err != nil {
				t.Fatal(err)
			}
			changes := whole.Orders - begin.Orders + whole.Drains - begin.Drains
			t.Logf("%g requests a second, seed %d: %d changes in an hour; %v", rate, seed, changes, whole)
			if changes > maxFlaps {
				t.Errorf("%g requests a second, seed %d: %d changes of size in an hour of flat load", rate, seed, changes)
			}
		}
	}
}

// maxFlaps is how many orders and drains an hour of noise may cause: one endpoint
// more, and less, three times.
const maxFlaps = 6

// newNoise returns values within 30 % of a mean.
func newNoise(seed uint64) func(mean int) int {
	r := rand.New(rand.NewPCG(seed, 17))
	return func(mean int) int { return int(float64(mean) * (0.7 + 0.6*r.Float64())) }
}
