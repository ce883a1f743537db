package kvindex

// Tiered is an Index whose Match counts what a tier holds from the end of the
// faster tiers, see [Index.MatchTiers].
type Tiered struct{ Index *Index }

// Match is MatchTiers of the index.
func (t Tiered) Match(hashes, candidates []uint64, depth []uint32) {
	t.Index.MatchTiers(hashes, candidates, depth)
}
