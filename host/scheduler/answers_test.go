package scheduler

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
)

// TestAnswers: a response is continued on the endpoint that gave it, by the tenant that
// got it, as long as the endpoint exists.
func TestAnswers(t *testing.T) {
	r := newRig(t, 4, nil)
	request := func(previous string) *Request {
		req := r.request("x")
		req.API.Op, req.API.PreviousResponse = llmapi.OpResponses, previous
		return req
	}
	refused := func(previous string) {
		t.Helper()
		_, err := r.sched.Schedule(request(previous))
		if d, ok := errors.AsType[*DeniedError](err); !ok || d.Status != 404 || d.Code != llmapi.CodeResponseNotFound ||
			d.Param != "previous_response_id" {
			t.Errorf("%s: got %v", previous, err)
		}
	}
	var homes []endpoint.ID
	for i := range 8 {
		p := r.place(request(""))
		p.FirstToken()
		p.Answered(fmt.Sprint("resp_", i))
		homes = append(homes, p.Target().Endpoint)
		end(p)
	}
	for i, home := range homes {
		p := r.place(request(fmt.Sprint("resp_", i)))
		if p.Target().Endpoint != home {
			t.Errorf("resp_%d was at %d, is continued at %d", i, home, p.Target().Endpoint)
		}
		if p.Next() {
			t.Errorf("resp_%d is retried elsewhere", i)
		}
		end(p)
	}
	refused("resp_8")
	acme := r.tenant
	r.tenant = &identity.Principal{Tenant: "globex"}
	refused("resp_0")
	r.tenant = acme

	r.store.Update(homes[0], func(s *endpoint.State) { s.Ready = false })
	_, err := r.sched.Schedule(request("resp_0"))
	if d, ok := errors.AsType[*DeniedError](err); !ok || d.Status != 503 {
		t.Errorf("its endpoint is not ready: got %v", err)
	}
	r.store.Remove(homes[0])
	refused("resp_0")
	if got := r.state.Stats().Refused["response_not_found"]; got != 3 {
		t.Errorf("got %d refusals counted, want 3", got)
	}
}

// TestAnswers_users: users of a tenant that share no cache cannot continue each other's
// responses.
func TestAnswers_users(t *testing.T) {
	for scope, apart := range map[string]bool{policy.ScopeTenant: false, policy.ScopeGroup: false,
		policy.ScopeUser: true, policy.ScopeNone: true} {
		r := newRig(t, 2, nil)
		r.policy.d.Scope = scope
		request := func(user, previous string) *Request {
			req := r.request("x")
			req.Principal = &identity.Principal{Tenant: "acme", User: user}
			req.API.Op, req.API.PreviousResponse = llmapi.OpResponses, previous
			return req
		}
		p := r.place(request("ada", ""))
		p.FirstToken()
		p.Answered("resp")
		end(p)
		for user, refused := range map[string]bool{"ada": false, "bob": apart, "": apart} {
			p, err := r.sched.Schedule(request(user, "resp"))
			if d, ok := errors.AsType[*DeniedError](err); refused != (ok && d.Code == llmapi.CodeResponseNotFound) ||
				!refused && err != nil {
				t.Errorf("scope %s, user %q: got %v, want refused %v", scope, user, err, refused)
			}
			if err == nil {
				end(p)
			}
		}
		r.idle()
	}
}

// TestModels_dedicated: a model that only another tenant's pools serve is not listed, nor
// is the context length of its engines.
func TestModels_dedicated(t *testing.T) {
	r := newRig(t, 2, func(_ *StateConfig, c *Config) {
		c.Pools = append(c.Pools, Pool{Name: "kept", Tenant: "globex", Dedicated: true})
		c.Models = append(c.Models, Model{Name: "theirs", Aliases: []string{"secret"},
			Pools: []PoolRef{{Pool: "kept", ServedAs: "x"}}})
		c.Models[0].Pools = append(c.Models[0].Pools, PoolRef{Pool: "kept", ServedAs: "x"})
	})
	id, err := r.store.Add(endpoint.Info{URL: "http://kept", Addr: "kept", Pool: "kept"})
	if err != nil {
		t.Fatal(err)
	}
	r.store.Update(id, func(s *endpoint.State) { s.Ready, s.MaxModelLen = true, 1<<21 })
	for tenant, own := range map[string]bool{"globex": true, "acme": false, "": false} {
		seen := false
		for _, m := range r.sched.Models(&identity.Principal{Tenant: tenant}) {
			seen = seen || m.ID == "theirs" || m.ID == "secret"
			if (m.MaxModelLen == 1<<21) != own {
				t.Errorf("%q: %s has a length of %d", tenant, m.ID, m.MaxModelLen)
			}
		}
		if seen != own {
			t.Errorf("%q: model listed %v, want %v", tenant, seen, own)
		}
	}
}

// TestAnswers_stress: responses are given and continued while endpoints come and go; a
// request to continue one is placed there or refused.
func TestAnswers_stress(t *testing.T) {
	r := newRig(t, 4, nil)
	var wg sync.WaitGroup
	for g := range 6 {
		tenant := &identity.Principal{Tenant: fmt.Sprint("t", g%2)}
		wg.Go(func() {
			for i := range 300 {
				req := &Request{ID: fmt.Sprint(g, "-", i), Principal: tenant,
					API: &llmapi.Request{Op: llmapi.OpResponses, Model: "m", Body: []byte("x")}}
				p, err := r.sched.Schedule(req)
				if err != nil {
					t.Error(err)
					return
				}
				id, home := fmt.Sprint("resp_", g, "_", i), p.Target().Endpoint
				p.Answered(id)
				p.FirstToken()
				end(p)
				req.API.PreviousResponse = id
				p, err = r.sched.Schedule(req)
				if d, ok := errors.AsType[*DeniedError](err); err != nil && (!ok || d.Status != 404 && d.Status != 503) {
					t.Errorf("got %v", err)
				}
				if err == nil {
					if p.Target().Endpoint != home {
						t.Errorf("%s was at %d, is continued at %d", id, home, p.Target().Endpoint)
					}
					end(p)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 100 {
			id, err := r.store.Add(endpoint.Info{URL: fmt.Sprint("http://x", i), Addr: fmt.Sprint("x", i), Pool: "main"})
			if err != nil {
				t.Error(err)
				return
			}
			r.store.Update(id, func(s *endpoint.State) { s.Ready, s.Trust = true, 1 })
			r.store.Remove(id)
		}
	})
	wg.Wait()
	r.idle()
}

// TestNarrow_salt: an endpoint is no candidate for the operations in which it ignores
// salts, unless its pool is dedicated or the operation has no prompt.
func TestNarrow_salt(t *testing.T) {
	r := newRig(t, 2, nil)
	messages := func() error {
		req := r.request("x")
		req.API.Op = llmapi.OpMessages
		p, err := r.sched.Schedule(req)
		if err == nil {
			end(p)
		}
		return err
	}
	if err := messages(); err != nil {
		t.Fatal(err)
	}
	for id := range endpoint.ID(2) {
		r.store.Update(id, func(s *endpoint.State) { s.NoSalt = 1 << llmapi.OpMessages })
	}
	if d, ok := errors.AsType[*DeniedError](messages()); !ok || d.Status != 503 ||
		d.Code != llmapi.CodeNoEligibleEndpoint {
		t.Errorf("got %v", d)
	} else if want := "No endpoint can take this request: " + reasons[reasonSalt].refusal + "."; d.Message != want {
		t.Errorf("got %q", d.Message)
	}
	for _, op := range []llmapi.Operation{llmapi.OpChat, llmapi.OpResponses, llmapi.OpCountTokens} {
		req := r.request("x")
		req.API.Op = op
		p, err := r.sched.Schedule(req)
		if err != nil {
			t.Fatalf("%d: %v", op, err)
		}
		if rw := p.Target().Rewrite; rw.SetSalt != op.HasPrompt() {
			t.Errorf("%d: salt %v", op, rw.SetSalt)
		}
		end(p)
	}
	d := newRig(t, 1, func(_ *StateConfig, c *Config) { c.Pools[0].Dedicated = true })
	d.store.Update(0, func(s *endpoint.State) { s.NoSalt = uint16(llmapi.Prompts) })
	end(d.place(d.request("x")))
}

// TestNext_within: a retry respects the decision although endpoints have changed since:
// one that was found to mix caches, or lost a required label, is no alternative.
func TestNext_within(t *testing.T) {
	f := func(name string, cs []policy.Constraint, change func(s *endpoint.State), want bool) {
		t.Helper()
		r := newRig(t, 2, nil)
		for id := range endpoint.ID(2) {
			r.store.Update(id, func(s *endpoint.State) { s.Isolation = "verified" })
		}
		r.policy.d.Constraints = cs
		p := r.place(r.request("x"))
		r.store.Update(1-p.Target().Endpoint, change)
		if got := p.Next(); got != want {
			t.Errorf("%s: goes on: %v, want %v", name, got, want)
		}
		end(p)
		r.idle()
	}
	verified := []policy.Constraint{{Label: "isolation", Values: []string{"verified"}}}
	none := func(s *endpoint.State) { s.NoSalt, s.Isolation = uint16(llmapi.Prompts), "none" }
	f("nothing changed", verified, func(*endpoint.State) {}, true)
	f("it ignores salts", nil, none, false)
	f("it ignores those of another operation", nil, func(s *endpoint.State) { s.NoSalt = 1 << llmapi.OpMessages }, true)
	f("it lost the label", verified, func(s *endpoint.State) { s.Isolation = "unverified" }, false)
	f("it lost a label that is not required", nil, func(s *endpoint.State) { s.Isolation = "unverified" }, true)
}
