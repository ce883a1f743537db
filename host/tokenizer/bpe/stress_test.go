package bpe_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/oracle"
)

// TestEncode_stress encodes, cuts and looks up ids in many goroutines at once
// and expects the results of a single one.
func TestEncode_stress(t *testing.T) {
	tok, _ := variant(t, variants["two_kinds"], true)
	docs := append(randomPieces(13, 100), oracle.Random(14, 100, pieces...)...)
	want := make([][]uint32, len(docs))
	cuts := make([]int, len(docs))
	for i, d := range docs {
		ids, err := tok.Encode(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		want[i], cuts[i] = ids, tok.Cut(d)
	}
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			var ids []uint32
			for k := range 400 {
				i := (k*7 + g*31) % len(docs)
				var err error
				if ids, err = tok.Encode(ids[:0], docs[i]); err != nil || !slices.Equal(ids, want[i]) {
					t.Errorf("document %d: %v, ids %v, want %v", i, err, ids, want[i])
					return
				}
				if c := tok.Cut(docs[i]); c != cuts[i] {
					t.Errorf("document %d: cut %d, want %d", i, c, cuts[i])
				}
				tok.ID("<|im_end|>")
				tok.Token(uint32(k))
			}
		})
	}
	wg.Wait()
}
