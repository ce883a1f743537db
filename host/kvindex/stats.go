package kvindex

// Stats are the shape and size of an Index, and counters that only grow.
type Stats struct {
	Pairs    int64 // (block, holder) pairs held
	Blocks   int64 // distinct blocks
	Runs     int64 // runs they are in
	Sets     int64 // distinct holder sets of two or more
	Aliases  int64 // pairs named by the alias table
	Reserved int64 // blocks of growth room

	Bytes      int64 // all that is allocated
	BlockBytes int64 // of these: arena
	NameBytes  int64 // engine names
	AliasBytes int64 // aliases
	RunBytes   int64 // run headers
	HeadBytes  int64 // table of runs
	SetBytes   int64 // holder sets

	Orphans   int64 // blocks of Stores whose parent was unknown
	Conflicts int64 // engine hashes that named a second content
	Unnamed   int64 // pairs not recorded because the alias table was full
	Evicted   int64 // blocks evicted for the budget
	Retries   int64 // lookups restarted because of a concurrent writer
	Splits    int64
	Shifts    int64 // boundaries moved instead of split
	Merges    int64
	Appends   int64 // blocks appended in place
	Copied    int64 // blocks that compaction moved
	Joined    int64 // runs that compaction emptied
	Released  int64 // arena segments released
}

// Stats returns the counters.
func (x *Index) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.st
	s.Aliases = int64(x.aliases.total)
	s.Sets = int64(len(x.sets.ids))
	s.Reserved = x.rooms.sum * granule
	s.Bytes = x.bytes()
	s.BlockBytes, s.NameBytes, s.AliasBytes = x.blocks.bytes, x.names.bytes, x.aliases.bytes
	s.RunBytes, s.HeadBytes, s.SetBytes = x.runs.bytes(), x.heads.bytes, x.sets.bytes
	s.Retries = x.retries.Load()
	return s
}

// Bytes is what the index has allocated.
func (x *Index) Bytes() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bytes()
}

// bytes is Bytes with the lock held.
func (x *Index) bytes() int64 {
	return x.blocks.bytes + x.names.bytes + x.aliases.bytes + x.heads.bytes + x.sets.bytes +
		x.runs.bytes() + int64(cap(x.rooms.q))*8
}
