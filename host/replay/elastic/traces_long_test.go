//go:build long && !race

package elastic

import (
	"os"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/replay"
)

func traceDir() string {
	if d := os.Getenv("KVASIR_TRACES"); d != "" {
		return d
	}
	return "../../../../shared/traces"
}

// TestBed_chat is the recorded chat load, 1.5 times as fast and swinging by
// 80 % every 20 minutes: the swing is 7 to 20 cold starts long.
func TestBed_chat(t *testing.T) {
	tr, err := replay.OpenMooncake(traceDir() + "/mooncake_conversation_trace.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	l := tr.Spread(7).Conversations
	Swing(l, 1.5, 0.8, 20*time.Minute)
	for _, cold := range []time.Duration{time.Minute, 3 * time.Minute} {
		for _, size := range []int{4, 6, 8, 12} {
			bed(t, "chat", Load{Conversations: l, BlockTokens: replay.MooncakeBlock}, cold, size)
		}
	}
}

// TestBed_agents is 200 recorded agent sessions that begin at random.
func TestBed_agents(t *testing.T) {
	l, err := replay.OpenWEKA(traceDir()+"/weka_cc_agentic_even.jsonl.gz",
		replay.Filter{Conversations: 200, CutBlocks: 120_000 / replay.WEKABlock})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(3) {
		Poisson(l, 0.12, seed)
		for _, cold := range []time.Duration{time.Minute, 3 * time.Minute} {
			for _, size := range []int{4, 8, 12} {
				bed(t, "agents", Load{Conversations: l, BlockTokens: replay.WEKABlock, MaxThink: 60}, cold, size)
			}
		}
	}
}
