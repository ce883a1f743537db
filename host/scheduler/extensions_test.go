package scheduler

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// scoring is a scorer made from a function.
type scoring struct {
	name string
	unit Unit
	f    func(*Batch) error
}

func (s scoring) Name() string         { return s.name }
func (s scoring) Unit() Unit           { return s.unit }
func (s scoring) Score(b *Batch) error { return s.f(b) }
func (s scoring) Digest() string       { return "d-" + s.name }

// Explain returns one term, half of the score.
func (s scoring) Explain(b *Batch) ([]string, []float32, error) {
	err := s.f(b)
	half := make([]float32, b.N)
	for i := range half {
		half[i] = b.Scores[i] / 2
	}
	return []string{"half"}, half, err
}

func favour(name string, id int) scoring {
	return scoring{name, UnitScore, func(b *Batch) error {
		for i, e := range b.Endpoints {
			b.Scores[i] = 0
			if int(e) == id {
				b.Scores[i] = 1
			}
		}
		return nil
	}}
}

func faulty(name string, err error) scoring {
	return scoring{name, UnitScore, func(b *Batch) error { b.Scores[0] = 99; return err }}
}

func TestScorers_sum(t *testing.T) {
	broken := errors.New("it broke")
	for name, tc := range map[string]struct {
		scorers []Weighted
		want    int // endpoint
		faults  map[string]string
	}{
		"one": {[]Weighted{{favour("a", 2), 1, false}}, 2, nil},
		"weights": {[]Weighted{{favour("a", 0), 1, false}, {favour("b", 1), 3, false}, {favour("c", 2), 2, false}}, 1,
			nil},
		"negative": {[]Weighted{{favour("a", 0), -1, false}, {favour("b", 1), -1, false}}, 2, nil},
		"fault is 0": {[]Weighted{{faulty("a", broken), 5, false}, {favour("b", 2), 1, false}}, 2,
			map[string]string{"a": "it broke"}},
		"abstain is 0": {[]Weighted{{favour("b", 1), 1, false}, {faulty("a", ErrAbstain), 5, false}}, 1,
			map[string]string{"a": "scheduler: abstains"}},
		"all fail": {[]Weighted{{faulty("a", broken), 1, false}, {faulty("b", broken), 1, false}}, 1,
			map[string]string{"a": "it broke", "b": "it broke"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3, func(_ *StateConfig, c *Config) { c.Profiles[0].Scorers = tc.scorers })
			r.index.Add(1, chainOf(words(1, 500), "s", 16)) // where the built-in goes
			req := r.request(words(1, 500))
			p := r.place(req)
			if got := int(p.Target().Endpoint); got != tc.want {
				t.Errorf("placed on %d, want %d", got, tc.want)
			}
			end(p)
			e, _ := r.sched.Explain("acme", req.ID)
			for _, u := range e.Plugins {
				if u.Fault != tc.faults[u.Name] {
					t.Errorf("%s: got fault %q, want %q", u.Name, u.Fault, tc.faults[u.Name])
				}
				for _, c := range e.Candidates {
					s, present := c.Scores[u.Name]
					if present != (u.Fault == "") {
						t.Errorf("%s: fault %q, score present %v", u.Name, u.Fault, present)
					}
					if u.Digest != "builtin" && present && s.Terms["half"] != s.Score/2 {
						t.Errorf("%s: terms %v of score %v", u.Name, s.Terms, s.Score)
					}
				}
			}
		})
	}
}

// TestScorers_termsOfOtherScores: explain has terms only if scoring again gives the same
// scores.
func TestScorers_termsOfOtherScores(t *testing.T) {
	n := float32(0)
	r := newRig(t, 2, func(_ *StateConfig, c *Config) {
		c.Profiles[0].Scorers = []Weighted{{Scorer: scoring{"a", UnitScore,
			func(b *Batch) error { n++; b.Scores[0], b.Scores[1] = n, n; return nil }}, Weight: 1}}
	})
	req := r.request(words(1, 50))
	end(r.place(req))
	e, _ := r.sched.Explain("acme", req.ID)
	if s := e.Candidates[0].Scores["a"]; s.Score != 1 || len(s.Terms) != 0 {
		t.Errorf("got %+v, want score 1 and no terms", s)
	}
}

func TestScorers_refused(t *testing.T) {
	r := newRig(t, 2, nil)
	for want, scorers := range map[string][]Weighted{
		"cannot be added up": {{favour("a", 0), 1, false}, {NewLeastWork(Blend), 1, false}},
		"weight 0":           {{favour("a", 0), 0, false}},
		"weight NaN":         {{favour("a", 0), math.NaN(), false}},
		"at most 4": {{favour("a", 0), 1, false}, {favour("a", 0), 1, false}, {favour("a", 0), 1, false},
			{favour("a", 0), 1, false}, {favour("a", 0), 1, false}},
	} {
		cfg := r.cfg
		cfg.Profiles = []Profile{{Name: "default", Scorers: scorers}}
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// filtering drops the endpoints of a set.
type filtering struct {
	drops map[int]uint32
	err   error
}

func (filtering) Name() string      { return "f" }
func (filtering) Reasons() []string { return []string{"f: one", "f: two"} }
func (f filtering) Filter(b *Batch, drop []uint32) error {
	for i, e := range b.Endpoints {
		drop[i] = f.drops[int(e)]
	}
	return f.err
}

func TestFilters(t *testing.T) {
	all := map[int]uint32{0: 1, 1: 2, 2: 1}
	for name, tc := range map[string]struct {
		f     filtering
		want  int
		fault string
	}{
		"none":         {filtering{}, 1, ""},
		"the warm one": {filtering{drops: map[int]uint32{1: 2}}, 0, ""},
		"two":          {filtering{drops: map[int]uint32{0: 1, 1: 2}}, 2, ""},
		"all":          {filtering{drops: all}, 1, "drops every candidate"},
		"error":        {filtering{drops: all, err: errors.New("oh")}, 1, "oh"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3, func(_ *StateConfig, c *Config) { c.Profiles[0].Filters = []Filter{tc.f} })
			r.index.Add(1, chainOf(words(1, 500), "s", 16))
			for i, l := range r.store.Load().Loads[:3] {
				l.Charge("x", int64(100*i), 0)
			}
			req := r.request(words(1, 500))
			p := r.place(req)
			if got := int(p.Target().Endpoint); got != tc.want {
				t.Errorf("placed on %d, want %d", got, tc.want)
			}
			end(p)
			e, _ := r.sched.Explain("acme", req.ID)
			if got := e.Plugins[1].Fault; !strings.Contains(got, tc.fault) || (got == "") != (tc.fault == "") {
				t.Errorf("got fault %q, want %q", got, tc.fault)
			}
			for i, c := range e.Candidates {
				if dropped := tc.fault == "" && tc.f.drops[i] != 0; dropped != (c.State == "filtered") || dropped &&
					!strings.HasPrefix(c.Reason, "f: ") {
					t.Errorf("endpoint %d is %s (%s)", i, c.State, c.Reason)
				}
				if c.State != "filtered" && c.Columns["outstanding_uncached_tokens"] != float32(100*i) {
					t.Errorf("endpoint %d has the columns of another: %v", i, c.Columns)
				}
			}
		})
	}
}

// picking orders the endpoints by descending id.
type picking struct {
	n   int
	err error
}

func (picking) Name() string { return "p" }
func (p picking) Pick(b *Batch, mask, order []uint32) (int, error) {
	n := 0
	for i := b.N - 1; i >= 0 && n < min(p.n, len(order)); i-- {
		if mask[i] == 1 {
			order[n] = uint32(i)
			n++
		}
	}
	return n, p.err
}

func TestPicker(t *testing.T) {
	for name, tc := range map[string]struct {
		p    picking
		want string // endpoints in the order of retries
	}{
		"order":    {picking{n: 4}, "3210"},
		"the best": {picking{n: 1}, "3102"},
		"abstains": {picking{n: 0}, "1023"},
		"fails":    {picking{n: 4, err: errors.New("oh")}, "1023"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 4, func(_ *StateConfig, c *Config) { c.Profiles[0].Picker = tc.p })
			r.index.Add(1, chainOf(words(1, 500), "s", 16))
			for i, l := range r.store.Load().Loads[:4] {
				l.Charge("x", int64(100*i), 0)
			}
			req := r.request(words(1, 500))
			p := r.place(req)
			got := ""
			for _, c := range p.order[:p.n] {
				got += string(rune('0' + c.id))
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			end(p)
			e, _ := r.sched.Explain("acme", req.ID)
			if fault := e.Plugins[1].Fault; (fault != "") != (tc.p.err != nil) {
				t.Errorf("got fault %q", fault)
			}
		})
	}
}
