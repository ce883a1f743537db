package scheduler

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/testdeps"
)

// The simulation has conversations that repeat their history with each turn, picked at
// random by a number of clients, on engines that keep every block and take 30 ms a turn.
// The ideal is one engine that serves all of them.
type simConfig struct {
	convs, turns, clients, endpoints int
	system, user, answer             int // tokens
	predicted                        bool
	rules                            ConversationRules
	seed                             uint64
}

type simResult struct {
	same, balance, hit float64 // hit: of ideal
	per                []int
	moved              int
}

type simEvent struct {
	at   time.Duration
	conv int
	p    *Placement
}

type simQueue []simEvent

func (q simQueue) Len() int           { return len(q) }
func (q simQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q simQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)        { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	o := *q
	e := o[len(o)-1]
	*q = o[:len(o)-1]
	return e
}

type simConv struct {
	history string
	turn    int
	busy    bool
	last    int
}

type sim struct {
	cfg   simConfig
	r     *rig
	rnd   *rand.Rand
	now   time.Duration
	convs []simConv
	queue simQueue
	cache []map[uint64]bool
	all   map[uint64]bool

	hit, ideal, again, same int
	per                     []int
}

func runSim(t testing.TB, cfg simConfig) simResult {
	s := &sim{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.seed, 1)), all: map[uint64]bool{}, per: make([]int, cfg.endpoints)}
	start := time.Unix(1_700_000_000, 0)
	clock := func() time.Time { return start.Add(s.now) }
	s.r = newRig(t, cfg.endpoints, func(sc *StateConfig, c *Config) {
		sc.Now, sc.Seed = clock, cfg.seed+1
		c.Profiles[0].Conversations = cfg.rules
		idx := newFakeIndex()
		idx.clock, idx.ttl = clock, 2*time.Second
		sc.Locality.Index, sc.Locality.Predictor = nil, idx
		if cfg.predicted {
			idx.ttl = 50 * time.Millisecond
			sc.Locality.Assumed = newFakeIndex()
		}
	})
	for i := range cfg.endpoints {
		s.cache = append(s.cache, map[uint64]bool{})
		s.r.store.Update(endpoint.ID(i), func(st *endpoint.State) { st.Events = endpoint.EventsPredicted })
	}
	system := words(int(cfg.seed)*7+1, cfg.system)
	for range cfg.convs {
		s.convs = append(s.convs, simConv{history: system, last: -1})
	}
	for range cfg.clients {
		s.next()
	}
	for len(s.queue) > 0 {
		e := heap.Pop(&s.queue).(simEvent)
		s.now = e.at
		e.p.FirstToken()
		e.p.Done(ok200)
		s.convs[e.conv].busy = false
		s.next()
	}
	s.r.idle()
	return s.result()
}

// next gives a client a conversation that is not busy.
func (s *sim) next() {
	var free []int
	for i := range s.convs {
		if c := &s.convs[i]; !c.busy && c.turn < s.cfg.turns {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return
	}
	i := free[s.rnd.IntN(len(free))]
	c := &s.convs[i]
	if c.turn > 0 {
		c.history += words(s.rnd.Int(), s.vary(s.cfg.answer))
	}
	c.history += words(s.rnd.Int(), s.vary(s.cfg.user))
	c.busy = true
	c.turn++
	p := s.r.place(s.r.request(c.history))
	s.arrive(int(p.Target().Endpoint), c)
	took := 30*time.Millisecond + time.Duration(s.rnd.IntN(2000))*time.Microsecond
	heap.Push(&s.queue, simEvent{s.now + took, i, p})
}

func (s *sim) vary(n int) int { return n*3/4 + s.rnd.IntN(n/2) }

// arrive counts the tokens of a prompt that the engine and the ideal engine had cached.
func (s *sim) arrive(at int, c *simConv) {
	s.per[at]++
	if c.last >= 0 {
		s.again++
		if c.last == at {
			s.same++
		}
	}
	c.last = at
	prev := blockhash.Seed("engine", "", "")
	hit, ideal := true, true
	for i := 0; i+64 <= len(c.history); i += 64 {
		var b [16]uint32
		for k := range b {
			b[k] = uint32(c.history[i+4*k]) | uint32(c.history[i+4*k+1])<<8 |
				uint32(c.history[i+4*k+2])<<16 | uint32(c.history[i+4*k+3])<<24
		}
		h, _ := blockhash.Append(nil, prev, b[:], 16)
		prev = h[0]
		if hit = hit && s.cache[at][prev]; hit {
			s.hit++
		}
		if ideal = ideal && s.all[prev]; ideal {
			s.ideal++
		}
		s.cache[at][prev], s.all[prev] = true, true
	}
}

func (s *sim) result() simResult {
	most, sum := 0, 0
	for _, n := range s.per {
		most, sum = max(most, n), sum+n
	}
	return simResult{same: float64(s.same) / float64(s.again), balance: float64(most) * float64(len(s.per)) / float64(sum),
		hit: float64(s.hit) / float64(s.ideal), per: s.per, moved: s.again - s.same}
}

// simSeeds begin with two random ones; the others failed once: equal endpoints had
// learned different rates from prompts that were too short, or beginnings were bound too
// tightly to the cheapest endpoint.
var simSeeds = []uint64{0, 1, 17, 51, 53, 57, 1007, 1081, 1113}

// TestSimulation_conversations: with prediction alone, conversations stay on their engine
// and load the engines evenly, even if all of them begin with the same 8 KB system prompt.
func TestSimulation_conversations(t *testing.T) {
	testdeps.Sequential(t)
	for _, load := range []struct {
		name                 string
		system, user, answer int
	}{
		{"conv", 40, 300, 150},
		{"convsys", 2000, 300, 150},
		{"convsys/small vocabulary", 4000, 600, 300},
		{"conv/no common block", 5, 300, 150},
	} {
		for _, clients := range []int{8, 100} {
			for _, predicted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/clients=%d/predicted=%v", load.name, clients, predicted), func(t *testing.T) {
					n := len(simSeeds)
					if !predicted {
						n = 2 // the two views agree within a run's noise
					}
					worst := simResult{same: 1, hit: 1}
					for _, seed := range simSeeds[:n] {
						r := runSim(t, simConfig{convs: 40, turns: 8, clients: clients, endpoints: 4, system: load.system,
							user: load.user, answer: load.answer, predicted: predicted, seed: seed})
						if r.same < 0.98 || r.balance > 1.25 || r.hit < 0.99 {
							t.Errorf("seed %d: same %.3f, balance %.2f %v, hit of ideal %.4f; want ≥ 0.98, ≤ 1.25, ≥ 0.99", seed, r.same,
								r.balance, r.per, r.hit)
						}
						worst.same, worst.balance, worst.hit = min(worst.same, r.same), max(worst.balance, r.balance),
							min(worst.hit, r.hit)
					}
					t.Logf("worst: same %.3f, balance %.2f, hit of ideal %.4f", worst.same, worst.balance, worst.hit)
				})
			}
		}
	}
}

// noRules leaves the choice to the cost.
var noRules = ConversationRules{HoldTokens: -1, SpreadTokens: -1, JoinAfter: -1}

// TestSimulation_costAlone: the cost alone does not suffice: it moves the second turns of
// short chats with every change of load.
func TestSimulation_costAlone(t *testing.T) {
	r := runSim(t, simConfig{convs: 40, turns: 8, clients: 8, endpoints: 4, system: 2000, user: 300, answer: 150,
		rules: noRules})
	t.Logf("same %.3f, balance %.2f %v, hit of ideal %.4f", r.same, r.balance, r.per, r.hit)
	if r.same >= 0.98 && r.balance <= 1.25 && r.hit >= 0.99 {
		t.Error("the cost alone passes: the test shows nothing")
	}
}
