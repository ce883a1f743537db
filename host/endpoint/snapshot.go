package endpoint

import (
	"slices"
	"time"
)

// Snapshot is the state of all endpoints at one moment, in columns. It is
// immutable and may be kept for as long as a reader likes; Loads are the live
// counters of the endpoints and change while it is read.
//
// Every column is [N], indexed by slot; the value of an empty slot is zero.
type Snapshot struct {
	N     int // slots up to the highest one in use
	Infos []*Info
	Loads []*Load

	// Edition is the edition of the rules by which the attributes and members are, 0
	// before the first Store.Switch.
	Edition uint64

	// Topology changes when endpoints are added or removed, or change their labels,
	// models or adapters.
	Topology uint64

	Live     Set // slots with an endpoint
	Ready    Set // of these, those that take requests (ready, awake, not draining)
	Cordoned Set // serving, but not for conversations that are new to it
	Draining Set // would serve if they did not drain
	Earlier  Set // State.EarlierBlocks

	Running     []uint32
	Waiting     []uint32
	KVUsage     []float32 // in [0, 1]
	Others      []Others  // of the figures above, what is not this router's
	BlockTokens []uint32
	CacheBlocks []uint32
	MaxModelLen []uint32
	Trust       []float32 // in [0, 1]
	Events      []EventMode
	NoSalt      []uint16  // sets of operations, as in State
	Cached      []uint32  // tokens the index knows there
	EvictRate   []float32 // tokens/s
	RTTMS       []float32 // 0 = unknown
	ScrapedAt   []int64   // Unix nanoseconds, 0 = never
	EventAt     []int64   // Unix nanoseconds of the last cache event, 0 = none
	Reasons     []string  // why a slot is not in Ready

	states []State
	topo   *topology
}

// topology is what changes only when endpoints come, go or change their models.
type topology struct {
	version  uint64
	infos    []*Info
	loads    []*Load
	live     Set
	labels   map[label]Set
	models   map[string]Set
	adapters map[string]Set
	anyModel Set // endpoints that have not reported their models
}

type label struct{ key, value string }

// Label returns the endpoints whose label key has value; nil if there is none.
// The set is the snapshot's own and must not be written.
func (s *Snapshot) Label(key, value string) Set { return s.topo.labels[label{key, value}] }

// Pool returns the endpoints of a pool, as Label does.
func (s *Snapshot) Pool(name string) Set { return s.Label(LabelPool, name) }

// Serves reports whether an endpoint serves model: it lists the model, or has
// not reported what it serves.
func (s *Snapshot) Serves(id ID, model string) bool {
	return s.topo.anyModel.Has(id) || s.topo.models[model].Has(id)
}

// Models returns the endpoints that list model and the endpoints that have not
// reported what they serve. The sets must not be written.
func (s *Snapshot) Models(model string) (serving, unknown Set) {
	return s.topo.models[model], s.topo.anyModel
}

// Adapter returns the endpoints that can serve a LoRA adapter.
func (s *Snapshot) Adapter(name string) Set { return s.topo.adapters[name] }

// Loaded reports whether requests ran with a LoRA adapter on an endpoint at its
// last scrape.
func (s *Snapshot) Loaded(id ID, adapter string) bool {
	return int(id) < s.N && slices.Contains(s.states[id].Loaded, adapter)
}

// State returns a copy of an endpoint's state; the zero State for an empty slot.
func (s *Snapshot) State(id ID) State {
	if int(id) >= s.N {
		return State{}
	}
	return s.states[id]
}

// Info returns the endpoint of slot id, nil for an empty slot.
func (s *Snapshot) Info(id ID) *Info {
	if int(id) >= s.N {
		return nil
	}
	return s.Infos[id]
}

// Current reports whether the slot still holds the endpoint of an epoch.
func (s *Snapshot) Current(id ID, epoch uint32) bool {
	i := s.Info(id)
	return i != nil && i.Epoch == epoch
}

// fill sets the columns from the states.
func (s *Snapshot) fill() {
	n := s.N
	u32 := make([]uint32, 6*n)
	f32 := make([]float32, 4*n)
	s.Running, s.Waiting, s.BlockTokens = u32[:n:n], u32[n:2*n:2*n], u32[2*n:3*n:3*n]
	s.CacheBlocks, s.MaxModelLen, s.Cached = u32[3*n:4*n:4*n], u32[4*n:5*n:5*n], u32[5*n:]
	s.KVUsage, s.Trust, s.EvictRate, s.RTTMS = f32[:n:n], f32[n:2*n:2*n], f32[2*n:3*n:3*n], f32[3*n:]
	s.Events = make([]EventMode, n)
	s.Others = make([]Others, n)
	s.NoSalt = make([]uint16, n)
	s.ScrapedAt, s.EventAt = make([]int64, n), make([]int64, n)
	s.Reasons = make([]string, n)
	s.Ready, s.Cordoned = make(Set, len(s.Live)), make(Set, len(s.Live))
	s.Draining, s.Earlier = make(Set, len(s.Live)), make(Set, len(s.Live))
	for i := range s.states {
		if s.Infos[i] != nil {
			s.fillSlot(i, &s.states[i])
		}
	}
}

func (s *Snapshot) fillSlot(i int, st *State) {
	s.Running[i], s.Waiting[i], s.KVUsage[i] = st.Running, st.Waiting, st.KVUsage
	s.Others[i] = st.others
	s.BlockTokens[i], s.CacheBlocks[i], s.MaxModelLen[i] = st.BlockTokens, st.CacheBlocks, st.MaxModelLen
	s.Trust[i], s.Events[i], s.NoSalt[i] = clampShare(st.Trust), st.Events, st.NoSalt
	if !st.ScrapedAt.IsZero() {
		s.ScrapedAt[i] = st.ScrapedAt.UnixNano()
	}
	if !st.EventAt.IsZero() {
		s.EventAt[i] = st.EventAt.UnixNano()
	}
	s.Cached[i], s.EvictRate[i], s.RTTMS[i] = st.CachedTokens, st.EvictRate, st.RTTMS
	if st.Cordoned || st.Held == HoldCordoned {
		s.Cordoned.Add(ID(i))
	}
	if st.EarlierBlocks {
		s.Earlier.Add(ID(i))
	}
	if st.Draining && st.Ready && !st.Sleeping {
		s.Draining.Add(ID(i))
	}
	if st.serving() {
		s.Ready.Add(ID(i))
		return
	}
	s.Reasons[i] = notReady(st)
}

func notReady(st *State) string {
	switch {
	case st.Held == HoldDrained:
		return "drained by an operator"
	case st.Draining:
		return "draining"
	case st.Sleeping:
		return "sleeping"
	case st.Reason != "":
		return st.Reason
	}
	return "not ready"
}

// clampShare forces v into [0, 1]; NaN becomes 0.
func clampShare(v float32) float32 {
	if !(v > 0) {
		return 0
	}
	return min(v, 1)
}

// AgeMS returns the age of an endpoint's reported figures in milliseconds at
// now, or a million seconds if it was never scraped.
func (s *Snapshot) AgeMS(id ID, now time.Time) float32 {
	if int(id) >= s.N {
		return AgeMS(0, now)
	}
	return AgeMS(s.ScrapedAt[id], now)
}

// AgeMS returns the age in milliseconds of figures that were scraped at a time
// in Unix nanoseconds, 0 = never: then a very large value.
func AgeMS(scrapedAt int64, now time.Time) float32 {
	const never = 1e9
	if scrapedAt == 0 {
		return never
	}
	return float32(max(0, float64(now.UnixNano()-scrapedAt)/1e6))
}
