package scheduler

import (
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// heldRig has a conversation of 3,000 tokens on endpoint 0, which has more work than
// the others: computing the conversation elsewhere is cheaper by 1,000 to 4,000 tokens.
func heldRig(t *testing.T, p Profile) (*rig, string) {
	t.Helper()
	p.Name = "default"
	r := newRig(t, 2, func(_ *StateConfig, c *Config) { c.Profiles[0] = p })
	text := words(1, 3000)
	r.warm(text, 0)
	r.store.Load().Loads[0].Charge("x", 10_000, 0)
	return r, text + words(2, 40)
}

func moved(e *Explanation) (out []string) {
	for _, m := range e.Moves {
		out = append(out, m.Rule)
	}
	return out
}

// TestRules_objective: what overrules a score is configured, and off for the objective
// ttft and for scorers of users unless it is asked for.
func TestRules_objective(t *testing.T) {
	own := []Weighted{{scoring{"mine", CostTokens, NewLeastWork(Blend).Score}, 1, false}}
	for _, c := range []struct {
		name   string
		p      Profile
		chosen int
		moves  []string
	}{
		{"blend holds the conversation", Profile{}, 0, []string{"hold"}},
		{"off", Profile{Conversations: noRules}, 1, nil},
		{"ttft", Profile{Objective: TTFT}, 1, nil},
		{"ttft, asked for", Profile{Objective: TTFT, Conversations: ConversationRules{HoldTokens: 8192}}, 0,
			[]string{"hold"}},
		{"a user's scorer", Profile{Scorers: own}, 1, nil},
		{"a user's scorer, asked for", Profile{Scorers: own, Conversations: ConversationRules{HoldTokens: 8192}}, 0,
			[]string{"hold"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, text := heldRig(t, c.p)
			e := r.sched.DryRun(r.request(text))
			if want := r.store.Load().Infos[c.chosen].URL; e.Chosen != want || !slices.Equal(moved(e), c.moves) {
				t.Errorf("got %s by %v, want %s by %v", e.Chosen, moved(e), want, c.moves)
			}
		})
	}
}

// TestRules_named: explain names each rule that moved the choice.
func TestRules_named(t *testing.T) {
	for _, c := range []struct {
		rule string
		set  func(r *rig) *Request
	}{
		{"envelope", func(r *rig) *Request {
			r.cfg.Profiles[0].Scorers = []Weighted{{scoring{"a", UnitScore, func(b *Batch) error {
				copy(b.Scores, b.Outstanding)
				return nil
			}}, 1, false}}
			r.store.Load().Loads[0].Charge("x", 100_000, 0)
			return r.request(words(1, 100))
		}},
		{"cap", func(r *rig) *Request {
			r.cfg.Pools[0].MaxInflight = 1
			r.cfg.Profiles[0].Scorers = []Weighted{{scoring{"a", UnitScore, func(b *Batch) error {
				r.store.Load().Loads[0].Charge("x", 1, 1)
				copy(b.Scores, []float32{1, 0, 0})
				return nil
			}}, 1, false}}
			return r.request(words(1, 100))
		}},
		{"slow_start", func(r *rig) *Request {
			r.store.Update(0, func(s *endpoint.State) { s.Ready = false })
			r.store.Update(0, func(s *endpoint.State) { s.Ready = true })
			text := words(1, 9000)
			r.warm(text, 0)
			for _, l := range r.store.Load().Loads {
				l.Charge("x", 10, 10)
			}
			return r.request(text)
		}},
		{"spread", func(r *rig) *Request {
			others := r.store.Load().Loads[1:]
			a, b := others[0].Charge("x", 9000, 1), others[1].Charge("x", 9000, 1)
			for i := range 3 {
				end(r.place(r.request(words(10+i, 100))))
			}
			a.Release()
			b.Release()
			for _, l := range others { // a little more work than on the first
				l.Charge("x", 1, 1)
			}
			return r.request(words(40, 100))
		}},
		{"pin", func(r *rig) *Request {
			r.policy.d.Affinity.Sticky = true
			q := func() *Request { q := r.request(words(1, 100)); q.Session = "s"; return q }
			p := r.place(q())
			at := p.Target().Endpoint
			end(p)
			r.store.Load().Loads[at].Charge("x", 5000, 0)
			return q()
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := newRig(t, 3, nil)
			req := c.set(r)
			s, err := New(r.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if e := s.DryRun(req); !slices.Contains(moved(e), c.rule) || e.Moves[0].From == e.Moves[0].To {
				t.Errorf("got moves %+v, want %s", e.Moves, c.rule)
			}
		})
	}
}

// TestEnvelope_builtin: the strictest envelope passes over what the built-in cost would
// choose, and counts answers that are being decoded.
func TestEnvelope_builtin(t *testing.T) {
	strict := Profile{Name: "default", Envelope: Envelope{MaxLoadRatio: 1, SlackTokens: -1}}
	r := newRig(t, 4, func(_ *StateConfig, c *Config) { c.Profiles[0] = strict })
	text := words(1, 4000)
	r.warm(text, 0)
	for i := range 60 {
		p := r.place(r.request(text + words(100+i, 40)))
		if i%2 == 0 {
			p.FirstToken()
		}
	}
	if n := r.state.Stats().Passed; n == 0 {
		t.Error("no decision of 60 passed an endpoint over")
	}
	got := r.placed()
	if most, least := slices.Max(got), slices.Min(got); most > 20 || least < 10 {
		t.Errorf("got %v, want 10 to 20 on each", got)
	}
	decoding := newRig(t, 4, func(_ *StateConfig, c *Config) { c.Profiles[0] = strict })
	decoding.warm(text, 0)
	decoding.store.Load().Loads[0].Charge("x", 0, 400_000)
	if c := decoding.sched.DryRun(decoding.request(text)).Candidates[0]; c.State != "enveloped" {
		t.Errorf("400,000 tokens are being decoded: got %s, want enveloped", c.State)
	}
}
