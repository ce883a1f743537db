package scheduler

import (
	"fmt"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
)

// TestScope_none: each request has its own salt, matches nothing, and leaves neither a
// prediction nor an assumption.
func TestScope_none(t *testing.T) {
	r := newRig(t, 2, func(sc *StateConfig, _ *Config) { sc.Locality.Assumed = newFakeIndex() })
	for i := range 2 {
		r.store.Update(endpoint.ID(i), func(s *endpoint.State) { s.Events = endpoint.EventsPredicted })
	}
	r.policy.d.Scope, r.policy.d.Salt, r.policy.d.Namespace = policy.ScopeNone, "", "none"
	text := words(1, 2000)
	r.index.Add(0, chainOf(text, "", 16)) // the public namespace is not its own
	adds := r.index.adds
	salts := map[string]bool{}
	for range 5 {
		p := r.place(r.request(text))
		rw := p.Target().Rewrite
		if !rw.SetSalt || len(rw.Salt) != len(policy.RandomSalt()) || salts[rw.Salt] {
			t.Errorf("salt %q of %v: none, not random, or twice", rw.Salt, salts)
		}
		salts[rw.Salt] = true
		if p.Kind() != KindCold || p.PredictedCached() != 0 || p.promptTokens() != 2000 {
			t.Errorf("got %v with %d of %d tokens predicted, want cold with none of 2000", p.Kind(), p.PredictedCached(),
				p.promptTokens())
		}
		r.state.Refresh()
		end(p)
	}
	if n := r.state.loc.Assumed.(*fakeIndex).adds; n != 0 || r.index.adds != adds {
		t.Errorf("%d predictions and %d assumptions, want none", r.index.adds-adds, n)
	}
	if e := r.sched.DryRun(r.request(text)); fmt.Sprint(e.Policy["cache"]) != "map[scope:none]" ||
		e.NamespaceHash != "none" {
		t.Errorf("explain: %+v", e.Policy)
	}
}

// TestScope_noneNeedsSalts: even in a dedicated pool the engine must honour the salt.
func TestScope_noneNeedsSalts(t *testing.T) {
	r := newRig(t, 1, func(_ *StateConfig, c *Config) { c.Pools[0].NoSalt, c.Pools[0].Dedicated = true, true })
	end(r.place(r.request("x")))
	r.policy.d.Scope, r.policy.d.Salt = policy.ScopeNone, ""
	_, err := r.sched.Schedule(r.request("x"))
	refusedWith(t, err, llmapi.CodeNoEligibleEndpoint, retrySoon)
	r.policy.d.Scope, r.policy.d.Salt = policy.ScopeUser, "user's"
	_, err = r.sched.Schedule(r.request("x"))
	refusedWith(t, err, llmapi.CodeNoEligibleEndpoint, retrySoon)
	r.policy.d.Scope, r.policy.d.Salt = policy.ScopePublic, ""
	end(r.place(r.request("x")))
}

// TestPool_tenant: a pool of one tenant gets no requests of others.
func TestPool_tenant(t *testing.T) {
	r := newRig(t, 1, func(_ *StateConfig, c *Config) { c.Pools[0].Tenant = "acme" })
	end(r.place(r.request("x")))
	r.tenant = &identity.Principal{Tenant: "globex"}
	_, err := r.sched.Schedule(r.request("x"))
	refusedWith(t, err, llmapi.CodeNoEligibleEndpoint, retrySoon)
	if e := r.sched.DryRun(r.request("x")); e.Allow || e.Candidates[0].Reason != "reserved for another tenant" {
		t.Errorf("explain: %+v", e)
	}
}
