package scheduler

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/identity"
)

// model is a model of the configuration. It is immutable.
type model struct {
	name     string
	created  int64
	alias    []string
	prompter Prompter
	pools    []poolUse
	key      uint64      // keyed hash of the name, for session keys
	state    *modelState // shared by all revisions
	lane     lane        // of pools

	measured  bool     // Model.MeasureReuse
	weighted  bool     // the pools have different weights
	capped    bool     // a pool bounds the requests of its endpoints
	poolNames []string // sorted
	queue     string   // name of the queue that its requests wait in: poolNames, joined
}

// poolUse is a pool as one model uses it.
type poolUse struct {
	*Pool
	served string
	factor float32 // mean weight of the model's pools / the pool's: how much its loads count
}

// newModel returns the model that c configures, with its state and lane in st.
func newModel(c *Model, st *State, pools map[string]*Pool) *model {
	m := &model{name: c.Name, created: c.Created, alias: c.Aliases, prompter: c.Prompter, measured: c.MeasureReuse,
		state: st.models.of(c.Name),
		key:   maphash.String(st.keys, c.Name)}
	for _, r := range c.Pools {
		served := r.ServedAs
		if served == "" {
			served = c.Name
		}
		m.pools = append(m.pools, poolUse{pools[r.Pool], served, 1})
		m.capped = m.capped || pools[r.Pool].MaxInflight > 0
		m.poolNames = append(m.poolNames, r.Pool)
	}
	m.weigh(c.Pools)
	slices.Sort(m.poolNames)
	m.queue, m.lane = strings.Join(m.poolNames, "\n"), st.lanes.of(m.poolNames)
	return m
}

// weigh sets how much the loads of each pool count.
func (m *model) weigh(refs []PoolRef) {
	weight := func(i int) float64 {
		if refs[i].Weight == 0 {
			return 1
		}
		return refs[i].Weight
	}
	var mean float64
	for i := range refs {
		mean += weight(i) / float64(len(refs))
		m.weighted = m.weighted || weight(i) != weight(0)
	}
	for i := range refs {
		m.pools[i].factor = float32(mean / weight(i))
	}
}

// reservedForOther reports whether the pool is reserved for another tenant than
// p's.
func (u *poolUse) reservedForOther(p *identity.Principal) bool {
	return u.Tenant != "" && (p == nil || u.Tenant != p.Tenant)
}

// visibleTo reports whether m is listed to p: not if all its pools are reserved
// for other tenants.
func (m *model) visibleTo(p *identity.Principal) bool {
	return slices.ContainsFunc(m.pools, func(u poolUse) bool { return !u.reservedForOther(p) })
}

// maxLen returns the longest context in tokens that an endpoint offers p for m, 0 =
// unknown.
func (m *model) maxLen(snap *endpoint.Snapshot, p *identity.Principal) int {
	longest := 0
	for i := range m.pools {
		if m.pools[i].reservedForOther(p) {
			continue
		}
		for _, id := range snap.Pool(m.pools[i].Name).AppendIDs(nil) {
			longest = max(longest, int(snap.MaxModelLen[id]))
		}
	}
	return longest
}
