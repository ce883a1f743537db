package kvindex

// Stats are the shape and size of an Index, and counters that only grow.
type Stats struct {
	Pairs    int64 `json:"pairs"`    // (block, holder) pairs held
	Blocks   int64 `json:"blocks"`   // distinct blocks
	Runs     int64 `json:"runs"`     // runs they are in
	Sets     int64 `json:"sets"`     // distinct holder sets of two or more
	Aliases  int64 `json:"aliases"`  // pairs named by the alias table
	Reserved int64 `json:"reserved"` // blocks of growth room

	Bytes      int64 `json:"bytes"`       // all that is allocated
	BlockBytes int64 `json:"block_bytes"` // of these: arena
	NameBytes  int64 `json:"name_bytes"`  // engine names
	AliasBytes int64 `json:"alias_bytes"` // aliases
	RunBytes   int64 `json:"run_bytes"`   // run headers
	HeadBytes  int64 `json:"head_bytes"`  // table of runs
	SetBytes   int64 `json:"set_bytes"`   // holder sets

	Orphans   int64 `json:"orphans"`   // blocks of Stores whose parent was unknown
	Conflicts int64 `json:"conflicts"` // engine hashes that named a second content
	Unnamed   int64 `json:"unnamed"`   // pairs not recorded because the alias table was full
	Evicted   int64 `json:"evicted"`   // blocks evicted for the budget
	Retries   int64 `json:"retries"`   // lookups restarted because of a concurrent writer
	Splits    int64 `json:"splits"`
	Shifts    int64 `json:"shifts"` // boundaries moved instead of split
	Merges    int64 `json:"merges"`
	Appends   int64 `json:"appends"`  // blocks appended in place
	Copied    int64 `json:"copied"`   // blocks that compaction moved
	Joined    int64 `json:"joined"`   // runs that compaction emptied
	Released  int64 `json:"released"` // arena segments released
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
