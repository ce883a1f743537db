// Package analyze measures how much of a workload's prompts could be reused, before
// anything is deployed or changed: the ideal share of cached tokens by the size of the
// cache, and what ends reuse (times, unique ids, the order of tools) with what its removal
// would gain.
package analyze

import "sort"

// Prompt is one request's prompt, in the order in which the requests came.
type Prompt struct {
	Chain  []uint64 // names of its whole blocks; equal names mean equal prompts up to there
	Tokens int      // of the prompt, whole blocks and the rest
}

// Reuse is what could be reused of a workload's prompts.
type Reuse struct {
	Requests     int
	PromptTokens int
	BlockTokens  int
	Sizes        []Size // by growing size of the cache; the last is unbounded
	Begins       []int  // tokens at which each prompt leaves all earlier ones
}

// Size is the reuse with a cache of one size.
type Size struct {
	CacheTokens int // 0 = unbounded
	HitTokens   int
	Ratio       float64 // HitTokens of all prompt tokens
}

// Measure computes the reuse with one cache of each size, in tokens and growing, that
// sees all prompts in order and evicts the blocks that were not used for longest, the
// last of a prompt first. That is the most that any placement over engines whose
// caches have this size together can reach with that rule. One pass yields all
// sizes (Mattson et al., Evaluation techniques for storage hierarchies, 1970): a block is
// in the cache if fewer distinct blocks were used since its last use than the cache
// holds. The cost is O(blocks × log blocks).
func Measure(prompts []Prompt, blockTokens int, sizes []int) Reuse {
	r := Reuse{Requests: len(prompts), BlockTokens: blockTokens}
	total := 0
	for i := range prompts {
		total += len(prompts[i].Chain)
		r.PromptTokens += prompts[i].Tokens
	}
	d := distances{last: make(map[uint64]int), tree: make([]int32, total+1)}
	hits := make([]int, len(sizes)+1) // blocks
	for i := range prompts {
		chain := prompts[i].Chain
		known := 0
		for _, name := range chain {
			n, ok := d.distance(name)
			if !ok {
				break
			}
			known++
			for k := sort.Search(len(sizes), func(k int) bool { return sizes[k]/blockTokens > n }); k < len(sizes); k++ {
				hits[k]++
			}
			hits[len(sizes)]++
		}
		r.Begins = append(r.Begins, known*blockTokens)
		for k := len(chain) - 1; k >= 0; k-- { // the first block is used last: the end goes first
			d.use(chain[k])
		}
	}
	for k, n := range hits {
		s := Size{HitTokens: n * blockTokens}
		if k < len(sizes) {
			s.CacheTokens = sizes[k]
		}
		if r.PromptTokens > 0 {
			s.Ratio = float64(s.HitTokens) / float64(r.PromptTokens)
		}
		r.Sizes = append(r.Sizes, s)
	}
	return r
}

// distances counts the distinct blocks that were used since a block's last use.
type distances struct {
	last map[uint64]int // time of the last use, from 1
	tree []int32        // Fenwick tree over times: 1 where a block was last used
	now  int
}

// distance returns how many distinct blocks were used after name, false if it never
// was.
func (d *distances) distance(name uint64) (int, bool) {
	at, ok := d.last[name]
	if !ok {
		return 0, false
	}
	return len(d.last) - d.sum(at), true
}

func (d *distances) use(name uint64) {
	if at, ok := d.last[name]; ok {
		d.add(at, -1)
	}
	d.now++
	d.last[name] = d.now
	d.add(d.now, 1)
}

func (d *distances) add(i int, n int32) {
	for ; i < len(d.tree); i += i & -i {
		d.tree[i] += n
	}
}

func (d *distances) sum(i int) (n int) {
	for ; i > 0; i -= i & -i {
		n += int(d.tree[i])
	}
	return n
}
