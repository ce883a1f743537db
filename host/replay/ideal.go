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
