package status

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/route"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// rules are one scheduler.
type rules struct{ s *scheduler.Scheduler }

func (r rules) Acquire() route.Lease { return route.Lease{Scheduler: r.s, Releaser: r} }
func (rules) Release()               {}

// asked keeps the principal that policy was asked about.
type asked struct{ p *identity.Principal }

func (a *asked) Decide(in *policy.Input) (*policy.Decision, error) {
	a.p = in.Principal
	return &policy.Decision{Allow: true, Salt: "s"}, nil
}

func newExplainer(t *testing.T) (*Explainer, *asked) {
	t.Helper()
	store, pol := endpoint.NewStore(), new(asked)
	id, err := store.Add(endpoint.Info{URL: "http://e:1", Addr: "e:1", Pool: "main"})
	if err != nil {
		t.Fatal(err)
	}
	store.Update(id, func(s *endpoint.State) { s.Ready = true })
	state := scheduler.NewState(scheduler.StateConfig{Store: store})
	s, err := scheduler.New(scheduler.Config{State: state, Policy: pol,
		Models: []scheduler.Model{{Name: "m", Pools: []scheduler.PoolRef{{Pool: "main"}}}},
		Pools:  []scheduler.Pool{{Name: "main"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &Explainer{Rules: rules{s}, State: state, Anonymous: func() string { return "local" }, Now: time.Now}, pol
}

// TestExplain: without a tenant the one that used the request id is found, and
// several are named.
func TestExplain(t *testing.T) {
	e, _ := newExplainer(t)
	for _, r := range [][2]string{{"acme", "one"}, {"acme", "shared"}, {"globex", "shared"}} {
		p, err := e.Rules.Acquire().Scheduler.Schedule(&scheduler.Request{ID: r[1],
			Principal: &identity.Principal{Tenant: r[0]}, API: &llmapi.Request{Op: llmapi.OpChat, Model: "m"}})
		if err != nil {
			t.Fatal(err)
		}
		p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete})
	}
	for _, c := range []struct{ tenant, id, owner string }{
		{"acme", "one", "acme"}, {"", "one", "acme"}, {"globex", "one", ""}, {"globex", "shared", "globex"},
		{"", "absent", ""},
	} {
		x, owner, err := e.Explain(context.Background(), &admin.ExplainRequest{Tenant: c.tenant, ID: c.id})
		if c.owner == "" {
			if !errors.Is(err, admin.ErrNotFound) {
				t.Errorf("%s of %q: got %v, want not found", c.id, c.tenant, err)
			}
			continue
		}
		if err != nil || owner != c.owner || x.Tenant != c.owner {
			t.Errorf("%s of %q: got owner %q, %+v, %v", c.id, c.tenant, owner, x, err)
		}
	}
	_, _, err := e.Explain(context.Background(), &admin.ExplainRequest{ID: "shared"})
	if a, ok := errors.AsType[*admin.AmbiguousError](err); !ok || !slices.Equal(a.Tenants, []string{"acme", "globex"}) {
		t.Errorf("got %v, want both tenants named", err)
	}
	for _, asked := range []bool{false, true} {
		x, _, err := e.Explain(context.Background(), &admin.ExplainRequest{ID: "one", Counterfactual: asked})
		if err != nil || (len(x.Counterfactual) > 0) != asked {
			t.Errorf("counterfactual %v: got %+v, %v", asked, x, err)
		}
	}
}

// TestDryRun: who would ask is the tenant that is named, else the anonymous one.
func TestDryRun(t *testing.T) {
	e, pol := newExplainer(t)
	const body, path = `{"model":"m","messages":[]}`, "/v1/chat/completions"
	for _, c := range []struct {
		tenant, path, body, fault string
		want                      string
	}{
		{"acme", path, body, "", identity.MethodAPIKey},
		{"", path, body, "", identity.MethodAnonymous},
		{"local", path, body, "", identity.MethodAnonymous},
		{"no tenant", path, body, "name the tenant", ""},
		{"acme", "/v1/nothing", body, "/v1/nothing", ""},
		{"acme", path, "{", "", ""},
	} {
		x, err := e.DryRun(context.Background(), &admin.DryRun{Tenant: c.tenant, Path: c.path, Body: []byte(c.body)})
		if c.want == "" {
			if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v: got %v, want a refusal", c, err)
			}
			continue
		}
		if err != nil || !x.Allow || pol.p.Method != c.want {
			t.Errorf("%+v: got %+v, %v by method %v", c, x, err, pol.p.Method)
		}
	}
}
