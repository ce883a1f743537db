package autoscale

import (
	"cmp"
	"slices"
)

// sessionHeat is what a live session is worth in tokens when a victim is
// chosen: about what its next request would compute again.
const sessionHeat = 8192

// victims orders nodes so that the one to lose first comes first: failing ones,
// then spot and dear ones, then ones that are not ready, then those on which the
// least is cached that no other has. Least heat, not fewest blocks: the latter
// was worst twice over several loads (RATIONALE.md).
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
