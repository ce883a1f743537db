package scheduler

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNormalize(t *testing.T) {
	for name, tc := range map[string]struct {
		n    Normalize
		in   []float32
		want []float32
	}{
		"none":                 {MinMax, nil, []float32{}},
		"one":                  {MinMax, []float32{7}, []float32{0}},
		"one by rank":          {Rank, []float32{7}, []float32{0}},
		"equal":                {MinMax, []float32{3, 3, 3}, []float32{0, 0, 0}},
		"equal by rank":        {Rank, []float32{3, 3, 3}, []float32{0, 0, 0}},
		"minmax":               {MinMax, []float32{-10, 30, 0}, []float32{0, 1, 0.25}},
		"widest":               {MinMax, []float32{-math.MaxFloat32, math.MaxFloat32, 0}, []float32{0, 1, 0.5}},
		"rank":                 {Rank, []float32{5, -1e9, 6, 1}, []float32{2. / 3, 0, 1, 1. / 3}},
		"rank with equal ones": {Rank, []float32{2, 1, 2, 2, 9}, []float32{0.5, 0, 0.5, 0.5, 1}},
	} {
		if got := tc.n.of(tc.in, nil); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// TestNormalize_order: normalizing keeps the order; the best score is 1, the worst 0.
func TestNormalize_order(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var mem []float32
	for range 300 {
		scores := make([]float32, 2+rng.IntN(300))
		for i := range scores {
			scores[i] = float32(rng.IntN(40)-20) * float32(math.Pow(10, float64(rng.IntN(6))))
		}
		scores[0]++ // never all equal
		for _, n := range []Normalize{MinMax, Rank} {
			mem = n.of(scores, mem)
			most, least := mem[slices.Index(scores, slices.Max(scores))], mem[slices.Index(scores, slices.Min(scores))]
			if n == MinMax && (most != 1 || least != 0) || n == Rank && most <= least {
				t.Fatalf("%s: best %v, worst %v", n, most, least)
			}
			for i := range scores {
				j := rng.IntN(len(scores))
				if mem[i] < 0 || mem[i] > 1 || scores[i] > scores[j] && mem[i] < mem[j] || scores[i] == scores[j] &&
					mem[i] != mem[j] {
					t.Fatalf("%s: scores %v and %v became %v and %v", n, scores[i], scores[j], mem[i], mem[j])
				}
			}
		}
	}
}

// costs is a scorer in tokens whose cost of endpoint i is c[i].
func costs(name string, c ...float32) scoring {
	return scoring{name, CostTokens, func(b *Batch) error {
		for i, e := range b.Endpoints {
			b.Scores[i] = -c[int(e)]
		}
		return nil
	}}
}

// TestScorers_normalized: scores of different units are added up if the profile
// normalizes; explain has the terms of the sum.
func TestScorers_normalized(t *testing.T) {
	far := costs("far", 0, 100, 1e6) // 1 and 0.9999 by minmax, 1 and 0.5 by rank
	for name, tc := range map[string]struct {
		n       Normalize
		scorers []Weighted
		want    int
		counted map[string][]float64
	}{
		"minmax": {MinMax, []Weighted{{far, 1, false}, {favour("b", 1), 0.5, false}}, 1,
			map[string][]float64{"far": {1, 0.9999, 0}, "b": {0, 0.5, 0}}},
		"rank": {Rank, []Weighted{{far, 1, false}, {favour("b", 1), 0.4, false}}, 0,
			map[string][]float64{"far": {1, 0.5, 0}, "b": {0.1, 0.4, 0.1}}},
		"faulty": {MinMax, []Weighted{{faulty("x", errors.New("oh")), 9, false}, {favour("b", 2), 1, false}}, 2,
			map[string][]float64{"b": {0, 0, 1}}},
		"one": {Rank, []Weighted{{far, -1, false}}, 2, map[string][]float64{"far": {-1, -0.5, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3, func(_ *StateConfig, c *Config) {
				c.Profiles[0].Scorers, c.Profiles[0].Normalize = tc.scorers,
					tc.n
			})
			if tc.n == Rank && tc.scorers[0].Weight == 1 {
				tc.counted["b"] = []float64{0.25 * 0.4, 0.4, 0.25 * 0.4}
			}
			req := r.request(words(1, 500))
			p := r.place(req)
			if got := int(p.Target().Endpoint); got != tc.want {
				t.Errorf("placed on %d, want %d", got, tc.want)
			}
			end(p)
			e, _ := r.sched.Explain("acme", req.ID)
			for i, c := range e.Candidates {
				var sum float64
				for name, counted := range tc.counted {
					got := c.Scores[name].Counted
					if got == nil || math.Abs(*got-counted[i]) > 1e-6 {
						t.Fatalf("endpoint %d: %s counted %v, want %v", i, name, got, counted[i])
					}
					sum += *got
				}
				if math.Abs(float64(c.Total)-sum) > 1e-6 || len(c.Scores) != len(tc.counted) {
					t.Errorf("endpoint %d: total %v of %v", i, c.Total, c.Scores)
				}
			}
		})
	}
}

// TestScorers_required: if a required scorer fails, the built-in scores the request,
// whatever the others return; otherwise they count.
func TestScorers_required(t *testing.T) {
	for name, tc := range map[string]struct {
		scorers []Weighted
		want    int // 1 is where the built-in goes
		builtin bool
	}{
		"accepted":            {[]Weighted{{favour("a", 2), 1, true}, {favour("b", 0), 0.5, false}}, 2, false},
		"faults":              {[]Weighted{{favour("b", 0), 5, false}, {faulty("a", errors.New("oh")), 1, true}}, 1, true},
		"abstains":            {[]Weighted{{faulty("a", ErrAbstain), 1, true}, {favour("b", 0), 5, false}}, 1, true},
		"another one faults":  {[]Weighted{{faulty("a", errors.New("oh")), 1, false}, {favour("b", 0), 1, true}}, 0, false},
		"the only one faults": {[]Weighted{{faulty("a", errors.New("oh")), 1, true}}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3, func(_ *StateConfig, c *Config) { c.Profiles[0].Scorers = tc.scorers })
			r.index.Add(1, chainOf(words(1, 500), "s", 16))
			req := r.request(words(1, 500))
			p := r.place(req)
			if got := int(p.Target().Endpoint); got != tc.want {
				t.Errorf("placed on %d, want %d", got, tc.want)
			}
			end(p)
			e, _ := r.sched.Explain("acme", req.ID)
			last := e.Plugins[len(e.Plugins)-1]
			if got := last.Digest == "builtin"; got != tc.builtin || r.state.Stats().Faults != uint64(b2i(tc.builtin)) {
				t.Errorf("got %+v, %d decisions by the built-in", e.Plugins, r.state.Stats().Faults)
			}
			if tc.builtin && (len(e.Candidates[0].Scores) != 1 || e.Candidates[0].Scores["leastwork"].Terms["own"] == 0) {
				t.Errorf("got scores %v", e.Candidates[0].Scores)
			}
		})
	}
}

func TestNormalize_refused(t *testing.T) {
	r := newRig(t, 2, nil)
	cfg := r.cfg
	cfg.Profiles = []Profile{{Name: "default", Normalize: "softmax"}}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), `normalize "softmax": want off, minmax or rank`) {
		t.Errorf("got %v", err)
	}
	cfg.Profiles = []Profile{{Name: "default", Normalize: NormalizeOff,
		Scorers: []Weighted{{favour("a", 0), 1, false}, {costs("c", 0, 1), 1, false}}}}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "set normalize: minmax or rank") {
		t.Errorf("got %v", err)
	}
}
