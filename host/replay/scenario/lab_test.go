//go:build !race

// A run in virtual time has no goroutine: the race detector would find nothing here.

package scenario

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/host/replay"
)

// labBurst is the burst of the simulator that the design's figures come from, request
// by request: clients with a shared system prompt, eight turns each in a closed loop.
func labBurst(clients int, think float64, system int) *replay.Trace {
	rng := rand.New(rand.NewSource(5))
	t := &replay.Trace{BlockTokens: 64}
	for c := range clients {
		k := replay.Conversation{Name: "client"}
		in := system
		for turn := range 8 {
			in += 50 + rng.Intn(200)
			out := 50 + rng.Intn(400)
			q := replay.Request{Tokens: in, Output: out}
			for b := range in / 64 {
				if name := uint64(0xabc000 + b); b < system/64 {
					q.Blocks = append(q.Blocks, name)
				} else {
					q.Blocks = append(q.Blocks, uint64(c+1)<<32+uint64(b))
				}
			}
			q.Think = rng.ExpFloat64() * think
			if turn == 0 {
				k.Start = rng.Float64() * 0.2
			}
			k.Requests = append(k.Requests, q)
			in += out
		}
		t.Conversations = append(t.Conversations, k)
	}
	slices.SortStableFunc(t.Conversations, func(a, b replay.Conversation) int {
		return int(math.Copysign(1, a.Start-b.Start))
	})
	return t
}

// TestLab compares the engine model with the simulator that the design was made with:
// requests within 2 s and 50 ms a token per second, and hit, under round robin.
func TestLab(t *testing.T) {
	for _, c := range []struct {
		name      string
		load      *replay.Trace
		engines   Group
		good, hit float64
	}{
		{"burst 48 × 10k", labBurst(48, 0.5, 10_000), Group{Count: 4, Preset: "8b-h100"}, 8.20, 90.6},
		{"burst 24 × 10k, think 2 s", labBurst(24, 2, 10_000), Group{Count: 4, Preset: "8b-h100"}, 3.92, 88.8},
		{"burst 160 × 20k", labBurst(160, 0.5, 20_000), Group{Count: 8, Preset: "70b-4xh100"}, 9.91, 93.5},
		{"burst 96 × 2k", labBurst(96, 0.5, 2000), Group{Count: 8, Preset: "8b-a100"}, 14.77, 65.6},
	} {
		f := &File{Name: c.name, Engines: []Group{c.engines}}
		f.defaults("")
		p, err := Peer("roundrobin", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Compare(f, &Workload{file: f, recorded: c.load}, []Policy{p}, Options{Seeds: []uint64{1}})
		if err != nil {
			t.Fatal(err)
		}
		m := &got.Rows[0].Mean
		if math.Abs(m.Good/c.good-1) > 0.02 || math.Abs(100*m.Hit-c.hit) > 0.5 {
			t.Errorf("%s: %.2f good requests a second, hit %.1f %%; that simulator has %.2f and %.1f", c.name, m.Good, 100*m.Hit,
				c.good, c.hit)
		}
	}
}
