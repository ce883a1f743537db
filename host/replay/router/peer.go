package router

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/replay/virtual"
)

// Peer describes a policy that the product is compared with.
type Peer struct {
	Name  string // on the command line
	Title string // in tables
	// Params are the constants of the policy with their published or usual values.
	Params []Param
	// Scrape is how often its router reads the engines' figures; 0 = the run's.
	Scrape time.Duration

	make func(c constants) chooser
}

// Param is a constant of a policy.
type Param struct {
	Name    string
	Default float64
	Choices []float64 // what tuning tries
}

// constants are the values of a policy's parameters, by name.
type constants map[string]float64

// chooser chooses the engine of one request.
type chooser interface{ choose(v *view) int }

type chooserFunc func(v *view) int

func (f chooserFunc) choose(v *view) int { return f(v) }

// Peers returns the policies, in the order of tables.
func Peers() []Peer { return slices.Clone(peers) }

// FindPeer returns the policy of a name.
func FindPeer(name string) (Peer, error) {
	var names []string
	for _, p := range peers {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Peer{}, fmt.Errorf("router: unknown policy %q: want one of %s", name, strings.Join(names, ", "))
}

// view is what a policy decides by.
type view struct {
	r        *virtual.Request
	n        int               // engines
	matched  []int             // [n] prompt tokens expected in the cache
	uncached []int             // [n] prompt tokens to compute
	loads    []*endpoint.Load  // [n]
	figures  []virtual.Figures // [n] of the last scrape
	engines  []virtual.Engine
	now      time.Duration
	rng      *rand.Rand
	output   float64 // mean tokens of answers
	ties     []int   // scratch memory
}

func (v *view) inflight(i int) float64    { return float64(v.loads[i].Inflight()) }
func (v *view) outstanding(i int) float64 { return float64(v.loads[i].Outstanding()) }
func (v *view) kv(i int) float64          { return float64(v.loads[i].KVActive()) }

// least returns the engine of the least cost, a random one of equals. Engines of
// infinite cost are left out.
func (v *view) least(cost func(i int) float64) int {
	best := math.Inf(1)
	v.ties = v.ties[:0]
	for i := range v.n {
		switch c := cost(i); {
		case c < best:
			best, v.ties = c, append(v.ties[:0], i)
		case c == best:
			v.ties = append(v.ties, i)
		}
	}
	return v.ties[v.rng.IntN(len(v.ties))]
}

// prefillMs is the time in milliseconds that engine i takes to compute n tokens behind
// start cached ones, alone.
func (v *view) prefillMs(i int, n, start float64) float64 {
	t := &v.engines[i].Timing
	return t.A*n + t.Q*n*(start+n/2)
}

// ownMs is prefillMs for the request on engine i, queueMs for what waits there.
func (v *view) ownMs(i int) float64 {
	return v.prefillMs(i, float64(v.uncached[i]), float64(v.matched[i]))
}
func (v *view) queueMs(i int) float64 { return v.prefillMs(i, v.outstanding(i), 0) }

// peerRouter is a policy as a router in virtual time.
type peerRouter struct {
	*knowledge
	choose  chooser
	v       view
	depth   []uint32
	scratch []uint32
	all     []uint64
	route   []*charge // free
}

// charge is a request in flight.
type charge struct {
	c  endpoint.Charge
	at time.Duration
}

// New returns the policy as the router of a fleet. set overrides constants; an unknown
// name is an error.
func (p *Peer) New(engines []virtual.Engine, set map[string]float64, seed uint64) (virtual.Router, error) {
	c := constants{}
	for _, x := range p.Params {
		c[x.Name] = x.Default
	}
	for name, value := range set {
		if _, ok := c[name]; !ok {
			return nil, fmt.Errorf("router: policy %s has no constant %q", p.Name, name)
		}
		c[name] = value
	}
	k, err := newKnowledge(engines)
	if err != nil {
		return nil, err
	}
	n := len(engines)
	r := &peerRouter{knowledge: k, choose: p.make(c), depth: make([]uint32, n), scratch: make([]uint32, n),
		all: make([]uint64, k.index.Words())}
	for i := range n {
		r.all[i>>6] |= 1 << (i & 63)
	}
	r.v = view{n: n, matched: make([]int, n), uncached: make([]int, n), figures: make([]virtual.Figures, n),
		loads: k.loads, engines: engines,
		rng: rand.New(rand.NewPCG(seed, 31)), output: firstOutput}
	return r, nil
}

// firstOutput is the length in tokens assumed of answers before there was one.
const firstOutput = 256

// Place implements virtual.Router.
func (p *peerRouter) Place(now time.Duration, r *virtual.Request) (int, error) {
	p.now = now
	block := p.engines[0].BlockTokens
	chain := r.Blocks[:min(len(r.Blocks), (r.Prompt-1)/block)]
	clear(p.depth)
	if len(chain) > 0 {
		p.index.Match(chain, p.all, p.depth)
		p.predictor.Raise(chain, p.all, p.depth, p.scratch)
	}
	v := &p.v
	v.r, v.now = r, now
	for i, d := range p.depth {
		v.matched[i] = int(d) * block
		v.uncached[i] = r.Prompt - v.matched[i]
	}
	at := p.choose.choose(v)
	r.Predicted, r.Uncached = v.matched[at], v.uncached[at]
	if len(r.Blocks) > 0 {
		p.predictor.Add(at, r.Blocks)
	}
	var c *charge
	if n := len(p.route); n > 0 {
		c, p.route = p.route[n-1], p.route[:n-1]
	} else {
		c = new(charge)
	}
	*c = charge{p.loads[at].Charge(r.Tenant, int64(r.Uncached), int64(r.Prompt)+int64(v.output)), now}
	r.Route = c
	return at, nil
}

// Scraped implements virtual.Router.
func (p *peerRouter) Scraped(_ time.Duration, engine int, f virtual.Figures) { p.v.figures[engine] = f }

// FirstToken implements virtual.Router.
func (p *peerRouter) FirstToken(now time.Duration, r *virtual.Request) {
	p.now = now
	c := r.Route.(*charge)
	p.loads[r.Engine].ObservePrefill(int64(r.Uncached), now-c.at)
	c.c.ReleaseWork()
}

// Done implements virtual.Router.
func (p *peerRouter) Done(now time.Duration, r *virtual.Request) {
	p.now = now
	c := r.Route.(*charge)
	c.c.Release()
	p.route = append(p.route, c)
	r.Route = nil
	p.v.output = 0.98*p.v.output + 0.02*float64(r.Output)
}

// Tick implements virtual.Router. Predictions are not renewed: the policies' own
// products have shorter ones or none.
func (p *peerRouter) Tick(now time.Duration) { p.tick(now) }
