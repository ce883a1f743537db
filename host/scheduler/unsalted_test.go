package scheduler

import (
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
)

// TestUnsalted: a request that is sent without a salt is counted by reason; "fault" stays 0
// for decisions that the router may make.
func TestUnsalted(t *testing.T) {
	count := func(r *rig, public, dedicated uint64) {
		t.Helper()
		got := r.state.Stats().Unsalted
		if got["public"] != public || got["dedicated"] != dedicated || got["fault"] != 0 || len(got) != 3 {
			t.Errorf("got %v, want public %d, dedicated %d", got, public, dedicated)
		}
	}
	r := newRig(t, 2, nil)
	end(r.place(r.request("x")))
	count(r, 0, 0)
	q := r.request("x")
	q.API.Op = llmapi.OpTokenize // touches no cache
	end(r.place(q))
	count(r, 0, 0)
	r.policy.d.Scope, r.policy.d.Salt = policy.ScopePublic, ""
	end(r.place(r.request("x")))
	count(r, 1, 0)

	r = newRig(t, 1, func(_ *StateConfig, c *Config) { c.Pools[0].NoSalt, c.Pools[0].Dedicated = true, true })
	end(r.place(r.request("x")))
	count(r, 0, 1)

	r = newRig(t, 1, nil)
	q = r.request("")
	if err := q.API.Scan(llmapi.OpChat, []byte(`{"model":"m","messages":[],"cache_salt":"mine"}`)); err != nil {
		t.Fatal(err)
	}
	end(r.place(q))
	if n := r.state.Stats().ClientSalts; n != 1 {
		t.Errorf("%d client salts counted, want 1", n)
	}
	r.policy.d.Scope, r.policy.d.Salt = "", "" // policy gave none: nothing explains it
	end(r.place(r.request("x")))
	if n := r.state.Stats().Unsalted["fault"]; n != 1 {
		t.Errorf("%d faults counted, want 1", n)
	}
}
