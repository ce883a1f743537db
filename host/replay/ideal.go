package replay

// Ideal counts the blocks that one endpoint with an unbounded cache would reuse if
// it got every request, one after the other: the upper bound for any placement over
// any number of endpoints. order lists the requests in the order of sending.
func Ideal(order [][]uint64) (hit, total int) {
	seen := map[uint64]struct{}{}
	chain := func(blocks []uint64, f func(key uint64) bool) {
		h := uint64(0)
		for _, b := range blocks {
			h = mix(h, b)
			if !f(h) {
				return
			}
		}
	}
	for _, blocks := range order {
		total += len(blocks)
		chain(blocks, func(k uint64) bool {
			if _, ok := seen[k]; !ok {
				return false
			}
			hit++
			return true
		})
		chain(blocks, func(k uint64) bool { seen[k] = struct{}{}; return true })
	}
	return hit, total
}

// IdealHit returns the share of the trace's prompt tokens that one endpoint with an
// unbounded cache would reuse: the upper bound for any placement.
func IdealHit(t *Trace) float64 {
	seen := map[uint64]struct{}{}
	var hit, total float64
	for i := range t.Conversations {
		for k := range t.Conversations[i].Requests {
			q := &t.Conversations[i].Requests[k]
			tokens := q.Length(t.BlockTokens)
			total += float64(tokens)
			known := 0
			for _, h := range q.Blocks[:min(len(q.Blocks), tokens/t.BlockTokens)] {
				if _, ok := seen[h]; ok {
					known++
				}
				seen[h] = struct{}{}
			}
			// An engine computes at least one token of each prompt.
			hit += float64(min(known, (tokens-1)/t.BlockTokens) * t.BlockTokens)
		}
	}
	return hit / max(1, total)
}
