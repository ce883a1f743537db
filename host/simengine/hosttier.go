package simengine

// hostTier is a second, larger cache in host memory, as LMCache keeps one beside
// vLLM's blocks: whole chunks of many tokens, written when a request has computed
// them and read when the GPU does not hold them. Chunks are named by a key of
// their own, so that a tier can honour cache salts or ignore them whatever the
// GPU's blocks do. It sends no events. The oldest chunk is evicted first.
//
// Not safe for concurrent use.
type hostTier struct {
	blocks   int // GPU blocks in one chunk
	capacity int // chunks
	held     map[uint64]struct{}
	order    []uint64 // in the order they came, a ring once it is full
	next     int      // of order, when it is full
}

// newHostTier returns an empty tier, nil if chunks have no blocks: no tier.
func newHostTier(blocks, capacity int) *hostTier {
	if blocks == 0 {
		return nil
	}
	return &hostTier{blocks: blocks, capacity: capacity, held: map[uint64]struct{}{}}
}

// match returns how many leading GPU blocks the tier can provide, at most limit.
func (t *hostTier) match(chunks []uint64, limit int) int {
	if t == nil {
		return 0
	}
	n := 0
	for _, key := range chunks {
		if _, ok := t.held[key]; !ok {
			break
		}
		n += t.blocks
	}
	return min(n, limit)
}

// store takes the chunks of which all blocks are computed.
func (t *hostTier) store(chunks []uint64, computed int) {
	if t == nil {
		return
	}
	for _, key := range chunks[:min(len(chunks), computed/t.blocks)] {
		if _, ok := t.held[key]; ok {
			continue
		}
		t.held[key] = struct{}{}
		if len(t.order) < t.capacity {
			t.order = append(t.order, key)
			continue
		}
		delete(t.held, t.order[t.next])
		t.order[t.next] = key
		t.next = (t.next + 1) % t.capacity
	}
}

// clear removes all chunks.
func (t *hostTier) clear() {
	if t != nil {
		*t = *newHostTier(t.blocks, t.capacity)
	}
}
