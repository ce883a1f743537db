package scheduler

import (
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
)

func TestPlacement_chargesAndReleases(t *testing.T) {
	r := newRig(t, 1, nil)
	l := r.store.Load().Loads[0]
	p := r.place(r.request(words(1, 1000)))
	if l.Inflight() != 1 || l.Outstanding() != 1000 || l.KVActive() != 1000 || l.TenantOutstanding("acme") != 1000 {
		t.Errorf("after Schedule: inflight %d, outstanding %d, kv %d", l.Inflight(), l.Outstanding(), l.KVActive())
	}
	q := r.place(r.request(words(1, 1000)))
	if got := l.Outstanding(); got != 1000+8 {
		t.Errorf("got %d outstanding, want 1,008: a sibling computes what is not predicted", got)
	}
	p.FirstToken()
	p.FirstToken()
	if l.Inflight() != 2 || l.Outstanding() != 8 || l.KVActive() != 2000 {
		t.Errorf("after FirstToken: inflight %d, outstanding %d, kv %d", l.Inflight(), l.Outstanding(), l.KVActive())
	}
	p.Done(exchange.Outcome{Status: 200, HasUsage: true, PromptTokens: 1000, OutputTokens: 300, HasCached: true,
		End: exchange.EndComplete})
	q.Done(exchange.Outcome{End: exchange.EndClientGone})
	r.idle()
	p = r.place(r.request(words(1, 1000)))
	if got := l.KVActive(); got != 1300 {
		t.Errorf("got %d kv tokens, want 1,300: the mean answer is expected", got)
	}
	end(p)
}

// A 500 counts against the endpoint if another one has a better answer, and against the
// prompt if that answers 500 too.
func TestPlacement_secondFailure(t *testing.T) {
	for second, failures := range map[int]int{500: 0, 200: 1, 400: 1} {
		r := newRig(t, 4, nil)
		p := r.place(r.request(words(1, 1000)))
		first := r.store.Load().Loads[p.Target().Endpoint]
		if !p.NextAfter(500) {
			t.Fatal("no other endpoint")
		}
		other := r.store.Load().Loads[p.Target().Endpoint]
		p.Done(exchange.Outcome{Status: second, End: exchange.EndComplete})
		now := time.Now()
		if got := first.Breaker(now).Failures; got != failures {
			t.Errorf("500, then %d: %d failures of the first endpoint, want %d", second, got, failures)
		}
		if got := other.Breaker(now).Failures; got != 0 {
			t.Errorf("500, then %d: %d failures of the other endpoint", second, got)
		}
		if got := r.state.Stats().Repeated; got != uint64(1-failures) {
			t.Errorf("500, then %d: %d requests failed twice", second, got)
		}
	}
}

func TestPlacement_nextGoesToTheSecondBest(t *testing.T) {
	r := newRig(t, 4, nil)
	text := words(1, 1000)
	chain := chainOf(text, "s", 16)
	r.index.Add(2, chain)
	r.index.Add(1, chain[:30])
	req := r.request(text)
	p := r.place(req)
	if p.Target().Endpoint != 2 {
		t.Fatalf("got endpoint %d, want 2", p.Target().Endpoint)
	}
	if !p.Next() || p.Target().Endpoint != 1 {
		t.Fatalf("got endpoint %d after Next, want 1", p.Target().Endpoint)
	}
	loads := r.store.Load().Loads
	if loads[2].Inflight() != 0 || loads[2].Outstanding() != 0 || loads[1].Outstanding() != 1000-480 {
		t.Errorf("got %d outstanding on the second, want 520, and nothing on the first", loads[1].Outstanding())
	}
	if p.PredictedCached() != 480 || p.Target().Addr != "10.0.0.1:8000" {
		t.Errorf("got predicted %d at %s", p.PredictedCached(), p.Target().Addr)
	}
	if e, _ := r.state.Explain("acme", req.ID); e.Chosen != "http://10.0.0.1:8000" || e.Retries != 1 ||
		e.PredictedCached != 480 {
		t.Errorf("explain: got chosen %s, retries %d", e.Chosen, e.Retries)
	}
	end(p)
	r.idle()
}

func TestPlacement_nextSkipsTheUnready(t *testing.T) {
	r := newRig(t, 4, func(_ *StateConfig, c *Config) { c.Pools[0].MaxInflight = 1 })
	p := r.place(r.request(words(1, 100)))
	order := p.order
	r.store.Update(order[1].id, func(s *endpoint.State) { s.Ready = false })
	c := order[2].load.Charge("x", 0, 0)
	if !p.Next() || p.Target().Endpoint != order[3].id {
		t.Errorf("got endpoint %d, want %d: the second is not ready, the third at its cap", p.Target().Endpoint, order[3].id)
	}
	if p.Next() {
		t.Error("got another after the last")
	}
	if got := p.Target().Endpoint; got != order[3].id {
		t.Errorf("a failed Next changed the target to %d", got)
	}
	c.Release()
	end(p)
	r.idle()
}

func TestPlacement_removalInFlight(t *testing.T) {
	r := newRig(t, 1, nil)
	text := words(1, 1000)
	p := r.place(r.request(text))
	r.store.Remove(0)
	id := r.add("10.0.0.9:8000", "main", nil)
	if id != 0 {
		t.Fatalf("got slot %d, want 0 again", id)
	}
	adds := r.index.adds
	end(p)
	if r.index.adds != adds {
		t.Error("the end of a request of a removed endpoint was noted for the next life of its slot")
	}
	r.idle()
	if l := r.store.Load().Loads[0]; l.Inflight() != 0 || l.Ejected() {
		t.Error("the next life of the slot was charged")
	}
}

// Without events an endpoint's cache is assumed from the first token on; until then the
// prediction lasts, however long the prefill takes.
func TestPlacement_predictionLastsThroughThePrefill(t *testing.T) {
	now := time.Unix(1000, 0)
	pred, assumed := newFakeIndex(), newFakeIndex()
	pred.ttl, pred.clock = 2*time.Second, func() time.Time { return now }
	r := newRig(t, 2, func(sc *StateConfig, _ *Config) {
		sc.Now = pred.clock
		sc.Locality.Index, sc.Locality.Predictor, sc.Locality.Assumed = nil, pred, assumed
	})
	for i := range 2 {
		r.store.Update(endpoint.ID(i), func(s *endpoint.State) { s.Events = endpoint.EventsPredicted })
	}
	text := words(1, 1000)
	p := r.place(r.request(text))
	for range 10 {
		now = now.Add(time.Second)
		r.state.Refresh()
	}
	// Ten seconds without a token are a wait that the other endpoint would not have.
	home := p.Target().Endpoint
	c := r.sched.DryRun(r.request(text)).Candidates[home]
	if c.Matched["gpu"] != 992 || assumed.adds != 0 {
		t.Errorf("in a long prefill: predicted %d, want 992; assumed %d times, want 0", c.Matched["gpu"], assumed.adds)
	}
	p.FirstToken()
	now = now.Add(time.Hour)
	r.state.Refresh()
	if e := r.sched.DryRun(r.request(text)); e.PredictedCached != 992 || assumed.adds != 1 {
		t.Errorf("an hour later: predicted %d, want 992; assumed %d times, want once", e.PredictedCached, assumed.adds)
	}
	p.Done(ok200)
	q := r.place(r.request(words(2, 1000)))
	q.Done(exchange.Outcome{End: exchange.EndConnect})
	if assumed.adds != 1 {
		t.Error("a prompt that never arrived was assumed to be cached")
	}
}

// The cache of an endpoint with events is known from them; nothing is assumed.
func TestPlacement_nothingIsAssumedOfLiveEndpoints(t *testing.T) {
	assumed := newFakeIndex()
	r := newRig(t, 1, func(sc *StateConfig, _ *Config) { sc.Locality.Assumed = assumed })
	assumed.Touch(0, chainOf(words(1, 500), "s", 16))
	p := r.place(r.request(words(1, 500)))
	if p.PredictedCached() != 0 {
		t.Errorf("predicted %d from an assumption", p.PredictedCached())
	}
	end(p)
	if assumed.adds != 1 {
		t.Error("assumed something of an endpoint with events")
	}
}

type observer struct{ got []Observation }

func (o *observer) Observe(x *Observation) { o.got = append(o.got, *x) }

func TestPlacement_observation(t *testing.T) {
	o := &observer{}
	r := newRig(t, 1, func(sc *StateConfig, _ *Config) { sc.Observer = o })
	end(r.place(r.request(words(1, 1000))))
	req := r.request(words(1, 1000))
	p := r.place(req)
	p.FirstToken()
	p.Done(exchange.Outcome{Status: 200, HasUsage: true, PromptTokens: 1000, OutputTokens: 5, HasCached: true,
		CachedTokens: 992, TTFT: time.Millisecond, E2E: time.Second, End: exchange.EndComplete})
	if len(o.got) != 2 || o.got[1].PredictedCached != 992 || o.got[1].Outcome.CachedTokens != 992 ||
		o.got[1].Tenant != "acme" || o.got[1].PromptTokens != 1000 {
		t.Errorf("got %+v", o.got)
	}
	s := r.state.Stats()
	if s.Finished != 2 || s.Reported != 1 || s.Exact != 1 || s.PredictionExact() != 1 || s.PromptAgreed != 1 ||
		s.ReportedTokens != 992 {
		t.Errorf("got stats %+v", s)
	}
	if e, _ := r.state.Explain("acme", req.ID); e.ReportedCached == nil || *e.ReportedCached != 992 ||
		e.Outcome == nil || e.Outcome.TTFTMillis != 1 {
		t.Errorf("got %+v", e)
	}
}

func TestSticky_withoutPromptKnowledge(t *testing.T) {
	r := newRig(t, 4, func(_ *StateConfig, c *Config) { c.Models[0].Prompter = wordPrompter{inexact: true} })
	home := map[string]endpoint.ID{}
	for range 5 {
		for _, s := range []string{"a", "b", "c", "d", "e"} {
			req := r.request(words(1, 500))
			req.Session = s
			p := r.place(req)
			if h, ok := home[s]; ok && h != p.Target().Endpoint {
				t.Errorf("session %s moved from %d to %d", s, h, p.Target().Endpoint)
			}
			if p.Kind() != KindFallback {
				t.Errorf("got kind %v, want fallback", p.Kind())
			}
			home[s] = p.Target().Endpoint
			end(p)
		}
	}
	// A session of another tenant with the same name is another session.
	r.tenant = &identity.Principal{Tenant: "globex"}
	key := func(s string) uint64 {
		d := &decision{r: &Request{Session: s, Principal: r.tenant, API: r.request("").API}, s: r.sched}
		d.model = r.sched.models["m"]
		return d.sessionKey()
	}
	if _, ok := r.state.sessions.get(key("a")); ok {
		t.Error("globex meets acme's session")
	}
	// A home with more than twice the mean and 8,192 tokens is left.
	r.tenant = &identity.Principal{Tenant: "acme"}
	c := r.store.Load().Loads[home["a"]].Charge("x", 40_000, 0)
	req := r.request(words(1, 500))
	req.Session = "a"
	p := r.place(req)
	if p.Target().Endpoint == home["a"] {
		t.Error("no spill from an overloaded home")
	}
	end(p)
	c.Release()
}

// TestSticky_ttl: a session without requests for as long as its profile says has no home,
// whether the prompt is not known or policy pins it; each request renews it.
func TestSticky_ttl(t *testing.T) {
	for _, c := range []struct {
		name   string
		pinned bool
		ttl    time.Duration // of the profile
		want   time.Duration
	}{
		{"default", false, 0, 30 * time.Minute}, {"unknown prompt", false, time.Minute, time.Minute},
		{"pinned", true, time.Minute, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			r := newRig(t, 2, func(sc *StateConfig, cfg *Config) {
				sc.Now = func() time.Time { return now }
				cfg.Profiles[0].SessionTTL = c.ttl
				cfg.Models[0].Prompter = wordPrompter{inexact: !c.pinned}
			})
			r.policy.d.Affinity.Sticky = c.pinned
			ask := func() endpoint.ID {
				q := r.request(words(r.ids, 500))
				q.Session = "a"
				p := r.place(q)
				defer end(p)
				return p.Target().Endpoint
			}
			// Work at the home makes the other endpoint cheaper, but does not make a session spill.
			home := ask()
			askBusy := func() endpoint.ID {
				other := r.store.Load().Loads[home].Charge("x", 2_000, 0)
				defer other.Release()
				return ask()
			}
			for range 3 {
				now = now.Add(c.want)
				if askBusy() != home {
					t.Fatal("moved within the time")
				}
			}
			now = now.Add(c.want + 1)
			if askBusy() == home {
				t.Error("stays after the time")
			}
		})
	}
}

func TestEnvelope(t *testing.T) {
	text := words(1, 1000)
	setup := func(t *testing.T) (*rig, []*endpoint.Load) {
		r := newRig(t, 4, nil)
		r.index.Add(0, chainOf(text, "s", 16))
		return r, r.store.Load().Loads
	}
	run := func(r *rig) Candidate {
		// A scorer that counts only the match.
		r.cfg.Profiles[0].Scorers = []Weighted{{failing{func(b *Batch) error { copy(b.Scores, b.Matched); return nil }}, 1,
			false}}
		s, err := New(r.cfg)
		if err != nil {
			r.t.Fatal(err)
		}
		return s.DryRun(r.request(text)).Candidates[0]
	}
	t.Run("within", func(t *testing.T) {
		r, l := setup(t)
		l[0].Charge("acme", 25_000, 0) // limit: 1.5 × 6,250 + 16,384
		if c := run(r); c.State != "kept" {
			t.Errorf("got %s (%s), want kept", c.State, c.Reason)
		}
	})
	t.Run("load", func(t *testing.T) {
		r, l := setup(t)
		l[0].Charge("acme", 28_000, 0)
		if c := run(r); c.State != "enveloped" || c.Reason != reasons[reasonLoad].text {
			t.Errorf("got %s (%s), want enveloped by load", c.State, c.Reason)
		}
	})
	t.Run("readmitted", func(t *testing.T) {
		r, l := setup(t)
		long := words(2, 40_000)
		r.index.Add(0, chainOf(long, "s", 16))
		l[0].Charge("acme", 27_000, 0)
		c := r.sched.DryRun(r.request(long)).Candidates[0]
		if c.State != "kept" {
			t.Errorf("got %s (%s), want kept: to wait for 27,000 tokens is cheaper than to compute 40,000", c.State, c.Reason)
		}
	})
	t.Run("share", func(t *testing.T) {
		r, l := setup(t)
		l[0].Charge("acme", 11_000, 0)
		l[0].Charge("globex", 9_000, 0)
		l[1].Charge("globex", 9_000, 0)
		if c := run(r); c.State != "enveloped" || c.Reason != reasons[reasonShare].text {
			t.Errorf("got %s (%s), want enveloped by share", c.State, c.Reason)
		}
	})
	t.Run("alone", func(t *testing.T) {
		r, l := setup(t)
		l[0].Charge("acme", 20_000, 0)
		if c := run(r); c.State != "kept" {
			t.Errorf("got %s (%s), want kept: no others wait", c.State, c.Reason)
		}
	})
	t.Run("returner", func(t *testing.T) {
		r, l := setup(t)
		r.store.Update(0, func(s *endpoint.State) { s.Ready = false })
		r.store.Update(0, func(s *endpoint.State) { s.Ready = true })
		for i := range l {
			l[i].Charge("acme", 10, 0)
		}
		if c := run(r); c.State != "enveloped" || c.Reason != reasons[reasonRamp].text {
			t.Errorf("got %s (%s), want enveloped by slow start", c.State, c.Reason)
		}
	})
}

func TestFillSpeeds(t *testing.T) {
	s := make([]float32, 4)
	fillSpeeds(s, []float32{0, 1000, 1100, 0})
	for i, v := range s {
		if v != 1 {
			t.Errorf("endpoint %d: got S %v, want 1: within the band or unknown", i, v)
		}
	}
	fillSpeeds(s, []float32{1000, 3000, 0, 100})
	if s[0] < 1.36 || s[0] > 1.37 || s[2] != 1 || s[3] != speedMax {
		t.Errorf("got %v, want mean/own, 1 for the unknown, at most 4", s)
	}
}

func TestLeastWork_formula(t *testing.T) {
	l := NewLeastWork(Blend)
	b := &Batch{}
	b.resize(2)
	for i, v := range [][5]float32{{1000, 500, 3, 2000, 1}, {1, 0, 0, 0, 2}} {
		b.Uncached[i], b.Outstanding[i], b.Inflight[i], b.KVActive[i], b.Speed[i] = v[0], v[1], v[2], v[3], v[4]
	}
	if err := l.Score(b); err != nil {
		t.Fatal(err)
	}
	if b.Scores[0] != -(500+2000+150+200) || b.Scores[1] != -4 {
		t.Errorf("got %v, want [-2850 -4]", b.Scores)
	}
	if NewLeastWork("x").w != objectives[Blend] || NewLeastWork(TTFT).w.Own != 1 || NewLeastWork(Throughput).w.Own != 3 {
		t.Error("objectives")
	}
}
