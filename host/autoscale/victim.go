package autoscale

import (
	"cmp"
	"slices"
)

// sessionHeat is the value of a live session in tokens when an endpoint is chosen
// for removal: about what its next request would have to compute again.
const sessionHeat = 8192

// victims sorts nodes so that the one to remove first comes first: failing ones,
// then spot and expensive ones, then ones that are not ready, then those with the
// least cached that no other endpoint has. By least heat, not fewest blocks: the
// latter was worst for two of several loads (RATIONALE.md).
func victims(nodes []Node) []Node {
	out := slices.Clone(nodes)
	rank := func(n *Node) int {
		if n.Failing {
			return 0
		}
		return 1
	}
	warmth := func(n *Node) float64 { return n.Heat + sessionHeat*float64(n.Sessions) }
	slices.SortStableFunc(out, func(a, b Node) int {
		return cmp.Or(
			cmp.Compare(rank(&a), rank(&b)),
			-compareBool(a.Spot, b.Spot),
			-cmp.Compare(a.Price, b.Price),
			compareBool(a.Ready, b.Ready),
			cmp.Compare(warmth(&a), warmth(&b)),
			cmp.Compare(a.InFlight, b.InFlight),
			cmp.Compare(a.ID, b.ID),
		)
	})
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
