package scheduler

import (
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/policy"
)

// flat is a scorer that gives all candidates the same score.
type flat struct{ unit Unit }

func (flat) Name() string { return "flat" }
func (f flat) Unit() Unit { return f.unit }
func (flat) Score(b *Batch) error {
	clear(b.Scores)
	return nil
}

// TestPrefer: a preference decides between idle endpoints, for the built-in and for scorers
// that ignore it, and is outweighed by enough work.
func TestPrefer(t *testing.T) {
	for _, c := range []struct {
		name   string
		scorer Scorer
		weight float64
		work   int // tokens outstanding on the preferred one
		want   bool
	}{
		{"idle", nil, 0.1, 0, true},
		{"worth it", nil, 0.5, 6000, true},
		{"not worth it", nil, 0.5, 12000, false},
		{"plugin that counts cost", flat{CostTokens}, 0.1, 0, true},
		{"plugin that counts units", flat{UnitScore}, 0.1, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 3, func(_ *StateConfig, cfg *Config) {
				if c.scorer != nil {
					cfg.Profiles[0].Scorers = []Weighted{{c.scorer, 1, false}}
				}
			})
			fast := r.add("fast:1", "main", map[string]string{"tier": "fast"})
			r.policy.d.Prefer = []policy.Preference{{Label: "tier", Values: []string{"fast", "other"}, Weight: c.weight}}
			load := r.store.Load().Loads[fast].Charge("x", int64(c.work), 0)
			defer load.Release()
			for i := range 8 {
				p := r.place(r.request(words(i, 50)))
				if got := p.Target().Endpoint == fast; got != c.want {
					t.Errorf("request %d: on the preferred one is %v, want %v", i, got, c.want)
				}
				end(p)
			}
			e := r.sched.DryRun(r.request(words(99, 50)))
			if got := e.Candidates[3].Columns["prefer_weight"]; got != float32(c.weight) {
				t.Errorf("explain: prefer_weight is %v, want %v", got, c.weight)
			}
			if list, _ := e.Policy["prefer"].([]any); len(list) != 1 || e.Policy["affinity"] != nil {
				t.Errorf("explain: policy is %+v", e.Policy)
			}
		})
	}
}

// TestAffinity_weight: the weight scales the credit of a cached prefix, not the charge of
// the endpoint.
func TestAffinity_weight(t *testing.T) {
	for _, c := range []struct {
		weight float64
		warm   bool
	}{{0, false}, {1, false}, {4, true}, {0.1, false}} {
		r := newRig(t, 2, func(_ *StateConfig, cfg *Config) {
			cfg.Profiles[0].Envelope = Envelope{SlackTokens: 1 << 20}
			cfg.Profiles[0].Conversations = noRules
		})
		r.policy.d.Affinity.Weight = c.weight
		text := words(1, 4000)
		r.index.Add(1, chainOf(text, "s", 16)[:62]) // 992 of 4,000 tokens
		busy := r.store.Load().Loads[1].Charge("x", 4000, 0)
		p := r.place(r.request(text))
		if got := p.Target().Endpoint == 1; got != c.warm {
			t.Errorf("weight %v: on the warm one is %v, want %v", c.weight, got, c.warm)
		}
		want := int64(4000)
		if c.warm {
			want = 3008
		}
		own := r.store.Load().Loads[p.Target().Endpoint].TenantOutstanding("acme")
		if own != want {
			t.Errorf("weight %v: charged %d tokens, want %d", c.weight, own, want)
		}
		end(p)
		busy.Release()
		r.idle()
	}
}

// TestAffinity_maxShare: a tenant with more than its share of an endpoint's work of the last
// minutes is placed elsewhere, however much is cached there, as long as others use it.
func TestAffinity_maxShare(t *testing.T) {
	now := time.Now()
	r := newRig(t, 2, func(sc *StateConfig, _ *Config) { sc.Now = func() time.Time { return now } })
	text := words(1, 4000)
	r.index.Add(1, chainOf(text, "s", 16))
	r.index.ttl, r.index.clock = time.Minute, func() time.Time { return now } // of predictions
	on := func(share float64) endpoint.ID {
		r.policy.d.Affinity.MaxShare = share
		p := r.place(r.request(text + words(2, 10)))
		defer end(p)
		return p.Target().Endpoint
	}
	l := r.store.Load().Loads[1]
	l.Worked("acme", 60000, now)
	if got := on(0.5); got != 1 {
		t.Errorf("alone on its endpoint: got %d, want 1", got)
	}
	l.Worked("other", 40000, now)
	if got := on(0.5); got != 0 {
		t.Errorf("with 60 %% of it and a share of 50 %%: got %d, want 0", got)
	}
	if got := on(0.7); got != 1 {
		t.Errorf("with 60 %% of it and a share of 70 %%: got %d, want 1", got)
	}
	now = now.Add(20 * time.Minute)
	if got := on(0.5); got != 1 {
		t.Errorf("after twenty minutes: got %d, want 1", got)
	}
	r.policy.d.Affinity.MaxShare = 0.5
	r.store.Update(0, func(s *endpoint.State) { s.Ready = false })
	l.Worked("acme", 60000, now)
	l.Worked("other", 40000, now)
	if got := on(0.5); got != 1 {
		t.Errorf("where there is no other endpoint: got %d, want 1", got)
	}
}

// TestAffinity_sticky: a pinned session stays on its endpoint although its prompt is cached
// elsewhere and the endpoint is loaded; not if the endpoint is gone, and not with another
// tenant's session of the same name.
func TestAffinity_sticky(t *testing.T) {
	r := newRig(t, 4, func(_ *StateConfig, cfg *Config) { cfg.Profiles[0].Holdout = 1 })
	r.policy.d.Affinity.Sticky = true
	ask := func(tenant string) *Placement {
		q := r.request(words(r.ids, 3000))
		q.Session, q.Principal = "s1", &identity.Principal{Tenant: tenant}
		return r.place(q)
	}
	p := ask("acme")
	home := p.Target().Endpoint
	end(p)
	load := r.store.Load().Loads[home].Charge("x", 1<<20, 0)
	for range 5 {
		p := ask("acme")
		if got := p.Target().Endpoint; got != home || p.Kind() == KindHoldout {
			t.Errorf("a pinned session went to %d (%v), its home is %d", got, p.Kind(), home)
		}
		end(p)
	}
	other := ask("globex")
	if other.Target().Endpoint == home {
		t.Error("another tenant's session of the same name was pinned to the loaded endpoint")
	}
	end(other)
	r.store.Update(home, func(s *endpoint.State) { s.Draining = true })
	p = ask("acme")
	moved := p.Target().Endpoint
	if moved == home {
		t.Error("a session stays on an endpoint that drains")
	}
	end(p)
	load.Release()
	r.store.Update(home, func(s *endpoint.State) { s.Draining = false })
	if p = ask("acme"); p.Target().Endpoint != moved {
		t.Errorf("the session went back to %d, want %d", p.Target().Endpoint, moved)
	}
	end(p)
}
