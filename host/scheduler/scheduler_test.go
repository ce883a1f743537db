package scheduler

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
)

func TestConfig_validate(t *testing.T) {
	err := (&Config{
		Models:   []Model{{Name: "a", Aliases: []string{"a"}, Pools: []PoolRef{{Pool: "none"}}}, {Name: "b"}},
		Pools:    []Pool{{Name: "p"}, {Name: "p"}},
		Profiles: []Profile{{Name: "x", Objective: "fast", Holdout: 2}, {Name: "x"}},
	}).Validate()
	for _, want := range []string{"no state", "no policy", `duplicate pool name "p"`, `duplicate model name "a"`,
		`unknown or duplicate pool "none"`, `model "b": no pool`, "objective", "holdout 2", `duplicate profile name "x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
}

func TestSchedule_target(t *testing.T) {
	r := newRig(t, 1, nil)
	r.policy.d.MaxOutputTokens = 77
	req := r.request(words(1, 100))
	req.API.Stream, req.API.Model = true, "gpt"
	p := r.place(req)
	g := p.Target()
	if g.Addr != "10.0.0.0:8000" || g.Host != "10.0.0.0:8000" || g.Authorization != "Bearer x" || g.Pool != "main" {
		t.Errorf("got target %+v", g)
	}
	if w := g.Rewrite; w.Model != "org/m" || w.Salt != "s" || !w.SetSalt || !w.ForceUsage || w.MaxTokens != 77 ||
		w.Dialect != "vllm" {
		t.Errorf("got rewrite %+v", w)
	}
	end(p)
	r.idle()
}

// TestSchedule_priority: only engines that order requests get the priority.
func TestSchedule_priority(t *testing.T) {
	for _, on := range []bool{true, false} {
		r := newRig(t, 1, func(_ *StateConfig, c *Config) { c.Pools[0].Priority = on })
		r.policy.d.Priority = 7
		want := 0
		if on {
			want = 7
		}
		p := r.place(r.request("x"))
		if got := p.Target().Rewrite.Priority; got != want {
			t.Errorf("priority %v: got %d, want %d", on, got, want)
		}
		end(p)
	}
}

func TestSchedule_publicTenantHasNoSalt(t *testing.T) {
	r := newRig(t, 1, nil)
	r.policy.d.Salt = ""
	p := r.place(r.request(words(1, 100)))
	if p.Target().Rewrite.SetSalt {
		t.Error("got SetSalt for a public namespace: the client's own salt must be removed, not replaced")
	}
	end(p)
}

func TestSchedule_refusals(t *testing.T) {
	long := words(1, 5000)
	for _, c := range []struct {
		name   string
		mod    func(*rig, *Request)
		status int
		code   llmapi.Code
		param  string
		retry  bool
	}{
		{"unknown model", func(_ *rig, q *Request) { q.API.Model = "x" }, 404, llmapi.CodeModelNotFound, "model", false},
		{"denied", func(r *rig, _ *Request) { r.policy.d = policy.Decision{Reason: "no"} }, 403, llmapi.CodePolicyDenied,
			"", false},
		{"denied with a status", func(r *rig, _ *Request) { r.policy.d = policy.Decision{Reason: "no", Status: 402} }, 402,
			llmapi.CodePolicyDenied, "", false},
		{"policy error", func(r *rig, _ *Request) { r.policy.err = errors.New("x") }, 503, llmapi.CodePolicyError, "", false},
		{"unknown profile", func(r *rig, _ *Request) { r.policy.d.Profile = "x" }, 503, llmapi.CodePolicyError, "", false},
		{"rewritten to an unknown model", func(r *rig, _ *Request) { r.policy.d.Model = "x" }, 503, llmapi.CodePolicyError,
			"", false},
		{"constraint", func(r *rig, _ *Request) {
			r.policy.d.Constraints = []policy.Constraint{{Label: "region", Values: []string{"eu"}}}
		}, 503, llmapi.CodeNoEligibleEndpoint, "", true},
		{"not ready", func(r *rig, _ *Request) {
			r.store.Update(0, func(s *endpoint.State) { s.Ready = false })
			r.store.Update(1, func(s *endpoint.State) { s.Draining = true })
		}, 503, llmapi.CodeNoEligibleEndpoint, "", true},
		{"not served", func(r *rig, _ *Request) {
			for i := range 2 {
				r.store.Update(endpoint.ID(i), func(s *endpoint.State) { s.Models = []string{"other"} })
			}
		}, 503, llmapi.CodeNoEligibleEndpoint, "", true},
		{"policy's prompt limit", func(r *rig, q *Request) { r.policy.d.MaxPromptTokens = 4999; q.API.Body = []byte(long) },
			400, llmapi.CodeContextLength, "messages", false},
		{"capacity", func(r *rig, _ *Request) {
			for range 2 {
				r.place(r.request(words(2, 50)))
			}
		}, 429, llmapi.CodeOverCapacity, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 2, func(_ *StateConfig, c *Config) { c.Pools[0].MaxInflight = 1 })
			req := r.request(words(1, 100))
			c.mod(r, req)
			_, err := r.sched.Schedule(req)
			d, ok := errors.AsType[*DeniedError](err)
			if !ok || d.Status != c.status || d.Code != c.code || d.Param != c.param || (d.RetryAfter > 0) != c.retry {
				t.Fatalf("got %+v, want status %d, code %s, param %q, retry %v", err, c.status, c.code, c.param, c.retry)
			}
			if n := r.state.Stats().Refused[c.code.String()]; n != 1 {
				t.Errorf("got %d refusals counted, want 1", n)
			}
			if e, ok := r.state.Explain("acme", req.ID); !ok || e.Allow || e.Status != c.status {
				t.Errorf("explain: got %+v, want a refusal", e)
			}
			if strings.Contains(err.Error(), "10.0.0.") {
				t.Errorf("the error names an endpoint: %v", err)
			}
		})
	}
}

// TestSchedule_fitsNowhere: a request that is too long for every endpoint is sent; the
// engine refuses it.
func TestSchedule_fitsNowhere(t *testing.T) {
	r := newRig(t, 2, nil)
	for i := range 2 {
		r.store.Update(endpoint.ID(i), func(s *endpoint.State) { s.MaxModelLen = 5000 })
	}
	end(r.place(r.request(words(1, 6000))))
}

func TestSchedule_contextCountsTheAnswer(t *testing.T) {
	r := newRig(t, 2, nil)
	r.store.Update(0, func(s *endpoint.State) { s.MaxModelLen = 1050 })
	for range 4 {
		req := r.request(words(1, 1000))
		req.API.MaxTokens = 51
		p := r.place(req)
		if p.Target().Endpoint != 1 {
			t.Error("placed where 1,000 + 51 tokens do not fit 1,050")
		}
		end(p)
	}
	e := r.sched.DryRun(&Request{ID: "d", Principal: r.tenant,
		API: &llmapi.Request{Op: llmapi.OpChat, Model: "m", Body: []byte(words(1, 1000)), MaxTokens: 51}})
	if e.Candidates[0].State != "filtered" || e.Candidates[0].Reason != reasons[reasonContext].text {
		t.Errorf("got %+v, want filtered for its context", e.Candidates[0])
	}
}

func TestSchedule_constraints(t *testing.T) {
	r := newRig(t, 0, nil)
	r.add("eu1:1", "main", map[string]string{"region": "eu", "gpu": "h100"})
	r.add("eu2:1", "main", map[string]string{"region": "eu", "gpu": "l4"})
	r.add("us1:1", "main", map[string]string{"region": "us", "gpu": "h100"})
	r.policy.d.Constraints = []policy.Constraint{{Label: "region", Values: []string{"eu", "ch"}},
		{Label: "gpu", NotIn: true, Values: []string{"l4"}}}
	for range 5 {
		p := r.place(r.request(words(1, 100)))
		if p.Target().Endpoint != 0 {
			t.Errorf("got endpoint %d, want 0: the only one in eu without l4", p.Target().Endpoint)
		}
	}
}

func TestSchedule_noSaltPools(t *testing.T) {
	r := newRig(t, 1, func(_ *StateConfig, c *Config) { c.Pools[0].NoSalt = true })
	if _, err := r.sched.Schedule(r.request("x")); err == nil {
		t.Error("a namespaced request was placed on an engine that ignores salts")
	}
	r.policy.d.Salt = ""
	end(r.place(r.request("x")))
}

func TestSchedule_dedicatedPools(t *testing.T) {
	r := newRig(t, 1, func(_ *StateConfig, c *Config) { c.Pools[0].NoSalt, c.Pools[0].Dedicated = true, true })
	p := r.place(r.request("x"))
	if rw := p.Target().Rewrite; rw.SetSalt {
		t.Errorf("a salt is set for an engine that has no field for it: %+v", rw)
	}
	end(p)
}

func TestSchedule_followsTheMatch(t *testing.T) {
	r := newRig(t, 4, nil)
	text := words(1, 4000)
	home := -1
	for i := range 20 {
		p := r.place(r.request(text + words(100+i, 50)))
		if home < 0 {
			home = int(p.Target().Endpoint)
		}
		if got := int(p.Target().Endpoint); got != home {
			t.Errorf("request %d: got endpoint %d, want %d: one at a time, none is busy", i, got, home)
		}
		if i > 0 && p.PredictedCached() != 4000 {
			t.Errorf("request %d: predicted %d cached tokens, want 4,000", i, p.PredictedCached())
		}
		end(p)
	}
	s := r.state.Stats()
	if s.Decisions["cold"] != 1 || s.Decisions["warm"] != 19 {
		t.Errorf("got decisions %v", s.Decisions)
	}
}

// A repeated prompt is cached except for the block with its last token.
func TestSchedule_capsWhatEnginesReuse(t *testing.T) {
	r := newRig(t, 1, nil)
	for _, n := range []int{15, 16, 17, 64, 65} {
		text := words(n, n)
		end(r.place(r.request(text)))
		p := r.place(r.request(text))
		if want := (n - 1) / 16 * 16; p.PredictedCached() != want {
			t.Errorf("%d tokens again: predicted %d, want %d", n, p.PredictedCached(), want)
		}
		end(p)
	}
	text := words(9, 640)
	end(r.place(r.request(text)))
	req := r.request(text)
	req.API.PromptLogprobs = true
	p := r.place(req)
	if p.PredictedCached() != 0 {
		t.Errorf("with prompt_logprobs: predicted %d, want 0", p.PredictedCached())
	}
	end(p)
}

func TestSchedule_blockSizes(t *testing.T) {
	r := newRig(t, 5, nil)
	for i, size := range []uint32{16, 32, 64, 128, 256} {
		r.store.Update(endpoint.ID(i), func(s *endpoint.State) { s.BlockTokens = size })
	}
	text := words(1, 1000)
	var chain [5][]uint64
	for i, size := range []int{16, 32, 64, 128} {
		chain[i] = chainOf(text, "s", size)
		r.index.Add(i, chain[i])
	}
	e := r.sched.DryRun(r.request(text))
	for i, want := range []int{992, 992, 960, 896, 0} {
		if got := e.Candidates[i].Matched["gpu"]; got != want {
			t.Errorf("endpoint %d: matched %d, want %d", i, got, want)
		}
	}
}

func TestSchedule_tenantsNeverMatch(t *testing.T) {
	r := newRig(t, 2, nil)
	text := words(1, 2000)
	end(r.place(r.request(text)))
	r.policy.d.Salt = "other"
	p := r.place(r.request(text))
	if p.PredictedCached() != 0 || p.Kind() != KindCold {
		t.Errorf("got %d tokens, kind %v in another namespace, want 0, cold", p.PredictedCached(), p.Kind())
	}
	end(p)
}

func TestSchedule_tiers(t *testing.T) {
	r := newRig(t, 2, func(sc *StateConfig, c *Config) {
		sc.Locality.Tiers = []float32{1, 0.5}
		sc.Locality.HolderOf = func(id endpoint.ID, tier int) int { return int(id)*2 + tier }
		sc.Locality.Predictor = nil
	})
	text := words(1, 1601)
	chain := chainOf(text, "s", 16)
	r.index.Add(0, chain[:20]) // gpu of endpoint 0
	r.index.Add(1, chain[:60]) // host of endpoint 0
	r.index.Add(2, chain[:30]) // gpu of endpoint 1
	r.store.Update(1, func(s *endpoint.State) { s.Trust = .5 })
	e := r.sched.DryRun(r.request(text))
	a, b := e.Candidates[0], e.Candidates[1]
	if a.Matched["gpu"] != 320 || a.Matched["host"] != 640 || b.Matched["gpu"] != 480 {
		t.Errorf("got %v and %v, want gpu 320, host 640 and gpu 480", a.Matched, b.Matched)
	}
	if got := a.Columns["uncached_tokens"]; got != 1601-320-320 {
		t.Errorf("got %v uncached, want 961: a host token counts half", got)
	}
	if got := b.Columns["uncached_tokens"]; got != 1601-240 {
		t.Errorf("got %v uncached, want 1361: trust 0.5", got)
	}
}

// With trust 0 matches have no credit: the least work decides.
func TestSchedule_trustZero(t *testing.T) {
	r := newRig(t, 4, nil)
	for i := range 4 {
		r.store.Update(endpoint.ID(i), func(s *endpoint.State) { s.Trust = 0 })
	}
	seen := map[endpoint.ID]int{}
	for i := range 40 {
		p := r.place(r.request(words(1, 1000) + words(i, 50)))
		seen[p.Target().Endpoint]++
		end(p)
	}
	for id, n := range seen {
		if n != 10 {
			t.Errorf("endpoint %d: %d of 40, want 10: untrusted matches must not attract", id, n)
		}
	}
}

func TestSchedule_burstOfSiblingsSpreads(t *testing.T) {
	r := newRig(t, 8, nil)
	var ps []*Placement
	per := map[endpoint.ID]int{}
	for i := range 64 {
		p := r.place(r.request(words(1, 3000) + words(100+i, 200)))
		per[p.Target().Endpoint]++
		ps = append(ps, p)
	}
	for id, n := range per {
		if n > 9 {
			t.Errorf("endpoint %d has %d of 64 siblings, want at most 9 (ideal 8)", id, n)
		}
	}
	for _, p := range ps {
		end(p)
	}
	r.idle()
}

func TestSchedule_breakerFiltersAndProbes(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newRig(t, 3, func(sc *StateConfig, _ *Config) {
		sc.Now = func() time.Time { return now }
		sc.Locality.Predictor = nil
	})
	text := words(1, 1000)
	r.index.Add(0, chainOf(text, "s", 16))
	for range 3 {
		p := r.place(r.request(text))
		if p.Target().Endpoint != 0 {
			t.Fatal("not placed at its match")
		}
		p.Done(exchange.Outcome{Status: 500, End: exchange.EndComplete})
	}
	p := r.place(r.request(text))
	if p.Target().Endpoint == 0 {
		t.Error("placed on an endpoint after three 500s in a row")
	}
	end(p)
	now = now.Add(2 * time.Second)
	probe := r.place(r.request(text))
	if probe.Target().Endpoint != 0 {
		t.Fatal("no probe after the ejection")
	}
	if p := r.place(r.request(text)); p.Target().Endpoint == 0 {
		t.Error("a second request beside the probe")
	}
	end(probe)
	if p := r.place(r.request(text)); p.Target().Endpoint != 0 {
		t.Error("not back after a good probe")
	}
}

func TestSchedule_backPressureNeverOpensABreaker(t *testing.T) {
	r := newRig(t, 2, nil)
	text := words(1, 1000)
	r.index.Add(0, chainOf(text, "s", 16))
	for _, o := range []exchange.Outcome{{Status: 503, End: exchange.EndComplete},
		{Status: 429, End: exchange.EndComplete}, {Status: 400, End: exchange.EndComplete}, {End: exchange.EndClientGone},
		{Status: 200, End: exchange.EndClientGone}} {
		for range 5 {
			r.place(r.request(text)).Done(o)
		}
	}
	if p := r.place(r.request(text)); p.Target().Endpoint != 0 {
		t.Error("ejected by answers that are no failure")
	}
}

func TestSchedule_holdout(t *testing.T) {
	r := newRig(t, 2, func(_ *StateConfig, c *Config) { c.Profiles[0].Holdout = 0.25 })
	held := 0
	for i := range 2000 {
		p := r.place(r.request(words(1, 200) + words(i, 20)))
		if p.Kind() == KindHoldout {
			held++
		}
		end(p)
	}
	if held < 400 || held > 600 {
		t.Errorf("got %d of 2,000 in the control arm, want about 500", held)
	}
	req := &Request{ID: "fixed", Principal: r.tenant,
		API: &llmapi.Request{Op: llmapi.OpChat, Model: "m", Body: []byte("x")}}
	if a, b := r.sched.DryRun(req).Arm, r.sched.DryRun(req).Arm; a != b {
		t.Error("one request id is in two arms")
	}
}

func TestSchedule_models(t *testing.T) {
	r := newRig(t, 1, nil)
	m := r.sched.Models(r.tenant)
	if len(m) != 2 || m[0].ID != "m" || m[1].ID != "gpt" || m[1].Root != "m" || m[0].MaxModelLen != 1<<20 {
		t.Errorf("got %+v", m)
	}
	r.policy.d.Allow = false
	if m := r.sched.Models(r.tenant); len(m) != 0 {
		t.Errorf("got %+v for a tenant who may use none", m)
	}
}

func TestSchedule_policyRewritesTheModel(t *testing.T) {
	r := newRig(t, 1, func(_ *StateConfig, c *Config) {
		c.Models = append(c.Models, Model{Name: "small", Pools: []PoolRef{{Pool: "main"}}})
	})
	r.policy.d.Model = "small"
	p := r.place(r.request("x"))
	if p.Target().Rewrite.Model != "small" {
		t.Errorf("got model %q, want small", p.Target().Rewrite.Model)
	}
	end(p)
}

// failing is a scorer that fails in a given way.
type failing struct{ how func(*Batch) error }

func (failing) Name() string           { return "bad" }
func (failing) Unit() Unit             { return CostTokens }
func (f failing) Score(b *Batch) error { return f.how(b) }

func TestSchedule_builtInScoresWhereAPluginFails(t *testing.T) {
	for name, how := range map[string]func(*Batch) error{
		"error": func(*Batch) error { return errors.New("x") },
		"NaN":   func(b *Batch) error { b.Scores[0] = float32(0) / (b.Scores[0] - b.Scores[0]); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2, func(_ *StateConfig,
				c *Config) {
				c.Profiles[0].Scorers = []Weighted{{Scorer: failing{how}, Weight: 1}}
			})
			r.index.Add(1, chainOf(words(1, 500), "s", 16))
			req := r.request(words(1, 500))
			p := r.place(req)
			if p.Target().Endpoint != 1 {
				t.Error("not placed by the built-in")
			}
			end(p)
			if e, _ := r.state.Explain("acme", req.ID); e.Plugins[0].Fault == "" {
				t.Error("explain does not tell the fault")
			}
			if r.state.Stats().Faults != 1 {
				t.Error("the fault is not counted")
			}
		})
	}
}

func TestDeniedError_text(t *testing.T) {
	e := errTooLong(5000, 4096, "prompt")
	if e.Status != http.StatusBadRequest || !strings.Contains(e.Error(), "5000 prompt tokens") ||
		!strings.Contains(e.Error(), "4096") {
		t.Errorf("got %v", e)
	}
	if got := fmt.Sprint(errModel(strings.Repeat("x", 10))); !strings.Contains(got, "does not exist") {
		t.Errorf("got %v", got)
	}
}
