package scenario

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/replay/router"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// Tunable is a policy with constants.
type Tunable struct {
	Name   string
	Params []router.Param
	With   func(set map[string]float64) (Policy, error)
}

// Product's constants, by name: the objective and the bounds of a profile. 0 of
// hold_tokens, spread_tokens and join_after is off.
var productParams = []router.Param{
	{Name: "objective", Default: 0, Choices: []float64{0, 1, 2}}, // blend, ttft, throughput
	{Name: "hold_tokens", Default: 8192, Choices: []float64{0, 2048, 8192, 16384}},
	{Name: "spread_tokens", Default: 2048, Choices: []float64{0, 512, 2048, 8192}},
	{Name: "join_after", Default: 4, Choices: []float64{0, 2, 4, 8}},
	{Name: "max_load_ratio", Default: 1.5, Choices: []float64{1.2, 1.5, 2}},
	{Name: "slack_tokens", Default: 16384, Choices: []float64{4096, 16384, 65536}},
}

var objectives = []scheduler.Objective{scheduler.Blend, scheduler.TTFT, scheduler.Throughput}

// withConstants returns the profile with constants of productParams.
func withConstants(p scheduler.Profile, set map[string]float64) (scheduler.Profile, error) {
	orOff := func(v float64) float64 {
		if v == 0 {
			return -1
		}
		return v
	}
	for name, v := range set {
		switch name {
		case "objective":
			if v != math.Trunc(v) || v < 0 || int(v) >= len(objectives) {
				return p, fmt.Errorf("scenario: objective=%g: want 0 (blend), 1 (ttft) or 2 (throughput)", v)
			}
			p.Objective = objectives[int(v)]
		case "hold_tokens":
			p.Conversations.HoldTokens = float32(orOff(v))
		case "spread_tokens":
			p.Conversations.SpreadTokens = float32(orOff(v))
		case "join_after":
			p.Conversations.JoinAfter = int(orOff(v))
		case "max_load_ratio":
			p.Envelope.MaxLoadRatio = float32(v)
		case "slack_tokens":
			p.Envelope.SlackTokens = float32(orOff(v))
		default:
			return p, fmt.Errorf("scenario: the router has no constant %q", name)
		}
	}
	return p, nil
}

// FindTunable returns the policy of a name; "kvasir" is the product with base.
func FindTunable(name string, base scheduler.Profile) (*Tunable, error) {
	if name == ProductName {
		return &Tunable{Name: name, Params: productParams, With: func(set map[string]float64) (Policy, error) {
			p, err := withConstants(base, set)
			return Product(ProductName, p), err
		}}, nil
	}
	p, err := router.FindPeer(name)
	if err != nil {
		return nil, err
	}
	return &Tunable{Name: name, Params: p.Params, With: func(set map[string]float64) (Policy, error) {
		return Peer(name, set)
	}}, nil
}

// Case is a scenario with its workload.
type Case struct {
	File     *File
	Workload *Workload
}

// ttftWeight is what a change of the mean time to the first token counts beside one of
// Metrics.Score: one per cent of that outweighs ten of it.
const ttftWeight = 0.1

// Tuned is the result of tuning one policy. Gains are logarithms of ratios, so that
// 0.01 is about one per cent; they are means over the scenarios.
type Tuned struct {
	Policy string             `json:"policy"`
	Set    map[string]float64 `json:"constants"` // that differ from the defaults
	Tried  int                `json:"tried"`     // sets of constants
	// Gain is of Set over the defaults with seeds that were not used to find it; CI is
	// half the width of its 95 % confidence interval. Noise says that the interval
	// contains 0: then Set shows nothing.
	Gain    float64            `json:"gain"`
	CI      float64            `json:"ci95"`
	Noise   bool               `json:"noise"`
	Search  float64            `json:"search_gain"` // with the seeds of the search
	ByCase  map[string]float64 `json:"gain_by_scenario"`
	Elapsed float64            `json:"-"` // seconds
}

// Spec returns the policy with its constants as ParsePeer takes it.
func (t *Tuned) Spec() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t.Set)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%g", name, t.Set[name])
	}
	if b.Len() == 0 {
		return t.Policy
	}
	return t.Policy + ":" + b.String()
}

// tuner is a search under way.
type tuner struct {
	t     *Tunable
	cases []Case
	o     Options
	seeds []uint64
	known map[string][][]Metrics // by constants: [cases][seeds]
}

// Tune searches the constants of a policy: one at a time, each choice, twice over all.
// It uses o.Seeds, and as many further ones to measure what it found.
func Tune(t *Tunable, cases []Case, o Options) (*Tuned, error) {
	began := time.Now()
	search := &tuner{t: t, cases: cases, o: o, seeds: o.Seeds, known: map[string][][]Metrics{}}
	base, err := search.measure(nil)
	if err != nil {
		return nil, err
	}
	best, gain := map[string]float64{}, 0.0
	for range 2 {
		was := gain
		for _, p := range t.Params {
			for _, v := range p.Choices {
				set := maps.Clone(best)
				if set[p.Name] = v; v == p.Default {
					delete(set, p.Name)
				}
				m, err := search.measure(set)
				if err != nil {
					return nil, err
				}
				if g, _ := gains(base, m); mean(g) > gain {
					best, gain = set, mean(g)
				}
			}
		}
		if gain == was {
			break
		}
	}
	out := &Tuned{Policy: t.Name, Set: best, Tried: len(search.known), Search: gain, ByCase: map[string]float64{}}
	err = search.verify(out)
	out.Elapsed = time.Since(began).Seconds()
	return out, err
}

// verify measures the gain of what was found with seeds that the search has not used.
func (s *tuner) verify(out *Tuned) error {
	last := slices.Max(s.seeds)
	fresh := &tuner{t: s.t, cases: s.cases, o: s.o, known: map[string][][]Metrics{}}
	for i := range s.seeds {
		fresh.seeds = append(fresh.seeds, last+uint64(i)+1)
	}
	base, err := fresh.measure(nil)
	if err != nil {
		return err
	}
	m, err := fresh.measure(out.Set)
	if err != nil {
		return err
	}
	bySeed, byCase := gains(base, m)
	out.Gain, out.CI = interval(bySeed)
	out.Noise = out.Gain-out.CI <= 0 || len(bySeed) < 2
	for i, g := range byCase {
		out.ByCase[s.cases[i].File.Name] = g
	}
	return nil
}

// measure runs the policy with a set of constants.
func (s *tuner) measure(set map[string]float64) ([][]Metrics, error) {
	key := fmt.Sprint(set) // fmt sorts the keys of maps
	if m, ok := s.known[key]; ok {
		return m, nil
	}
	p, err := s.t.With(set)
	if err != nil {
		return nil, err
	}
	out := make([][]Metrics, len(s.cases))
	for i, c := range s.cases {
		o := s.o
		o.Seeds = s.seeds
		r, err := Compare(c.File, c.Workload, []Policy{p}, o)
		if err != nil {
			return nil, err
		}
		out[i] = r.Rows[0].Runs
	}
	s.known[key] = out
	return out, nil
}

// gains returns how much better m is than base, by seed and by case.
func gains(base, m [][]Metrics) (bySeed, byCase []float64) {
	bySeed = make([]float64, len(base[0]))
	for i := range base {
		sum := 0.0
		for k := range base[i] {
			a, b := &base[i][k], &m[i][k]
			g := math.Log(max(1e-6, b.Score)/max(1e-6, a.Score)) -
				ttftWeight*math.Log(max(1e-6, b.TTFTMean)/max(1e-6, a.TTFTMean))
			bySeed[k] += g / float64(len(base))
			sum += g
		}
		byCase = append(byCase, sum/float64(len(base[i])))
	}
	return bySeed, byCase
}

// ProductName is the product's name among policies.
const ProductName = "kvasir"

// ParsePolicy returns the policy of a text, NAME or NAME:CONSTANT=VALUE,…; kvasir is the
// product with base.
func ParsePolicy(text string, base scheduler.Profile) (Policy, error) {
	if name, _, _ := strings.Cut(text, ":"); name != ProductName {
		return ParsePeer(text)
	}
	set, err := parseConstants(text)
	if err != nil {
		return Policy{}, err
	}
	p, err := withConstants(base, set)
	return Product(text, p), err
}
