//go:build !race

package chat_test

import (
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// TestBlocks_allocs limits the allocations of a request of which only the last
// turn is new. Under the race detector, pools drop items, so the test is excluded
// there; make test runs it without the race detector.
func TestBlocks_allocs(t *testing.T) {
	m := demoModel(t, nil)
	q := &tokenizer.Query{Sizes: []int{16}}
	var p tokenizer.Prompt
	before, after := growing(2)
	r0, r1 := scan(t, llmapi.OpChat, before), scan(t, llmapi.OpChat, after)
	both := testing.AllocsPerRun(5, func() {
		m.Drop()
		m.Blocks(r0, q, &p)
		m.Blocks(r1, q, &p)
	})
	first := testing.AllocsPerRun(5, func() {
		m.Drop()
		m.Blocks(r0, q, &p)
	})
	if got := both - first; got > 100 || !p.Exact {
		t.Errorf("%v allocations for the last turn, want 100 at most", got)
	}
}
