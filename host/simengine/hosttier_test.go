package simengine

import "testing"

// TestModel_hostTier: whole chunks are found again under their own keys, and the
// blocks loaded from them become blocks of the request that loaded them.
func TestModel_hostTier(t *testing.T) {
	m := testModel(func(c *ModelConfig) { c.ChunkBlocks, c.HostChunks = 2, 3 })
	run := func(prompt int, hashes, chunks []uint64, want int) {
		t.Helper()
		s := &Sequence{Prompt: prompt, Output: 1, Hashes: hashes, Chunks: chunks}
		m.Add(s)
		finish(t, m)
		if s.Cached != want || !s.Done() {
			t.Errorf("got %d cached, want %d", s.Cached, want)
		}
	}
	run(21, []uint64{1, 2, 3, 4, 5}, []uint64{91, 92}, 0)
	run(21, []uint64{1, 2, 3, 4, 5}, []uint64{91, 92}, 20) // the GPU holds more
	run(21, []uint64{11, 12, 13, 14, 15}, []uint64{91, 92}, 16)
	run(21, []uint64{11, 12, 13, 14, 15}, nil, 20)
	run(13, []uint64{21, 22, 23}, []uint64{91}, 8)
	run(16, []uint64{31, 32, 33, 34}, []uint64{91, 92}, 12) // one token is computed, in whole blocks
	run(17, []uint64{41, 42, 43, 44}, []uint64{93, 94}, 0)  // evicts 91
	run(17, []uint64{51, 52, 53, 54}, []uint64{91, 92}, 0)
	if got := m.cache.pinned + m.cache.private + m.reserved; got != 0 {
		t.Errorf("%d blocks are still in use", got)
	}
	if !m.Reset() {
		t.Fatal("not reset")
	}
	run(17, []uint64{61, 62, 63, 64}, []uint64{91, 92}, 0)
}
