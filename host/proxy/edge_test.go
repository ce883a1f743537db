package proxy

import (
	"net/http"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// byTenant authenticates everyone as one tenant, or refuses with err.
type byTenant struct {
	tenant string
	err    error
}

func (a byTenant) Authenticate(*identity.Credentials) (*identity.Principal, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &identity.Principal{Tenant: a.tenant}, nil
}

// TestRequest_Renew: where the rules change between the head of a request and its
// placement, the router has the head read again: hints, principal and the header
// fields that the engine gets are those of the rules that place it.
func TestRequest_Renew(t *testing.T) {
	var seen http.Header
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ *engine) { seen = r.Header.Clone() })
	r := newRouter(e.addr)
	x := start(t, r)
	first := x.router.Edge()
	for _, c := range []struct {
		name   string
		auth   byTenant
		status int
	}{
		{"accepted", byTenant{tenant: "globex"}, 200},
		{"refused", byTenant{err: &llmapi.Error{Status: 401, Code: llmapi.CodeInvalidAPIKey, Message: "revoked"}}, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			next, err := NewEdge(EdgeConfig{Hints: Hints{Session: "x-conversation"}}, c.auth)
			if err != nil {
				t.Fatal(err)
			}
			x.router.edge.Store(first)
			r.set(func() {
				seen = nil
				r.schedule = func(q *Request) error {
					x.router.edge.Store(next)
					if q.Edge != first || q.Session != "" || q.Principal.Tenant != "acme" {
						t.Errorf("before: session %q, tenant %s", q.Session, q.Principal.Tenant)
					}
					if err := q.Renew(); err != nil {
						return err
					}
					if q.Edge != next || q.Session != "c-1" || q.Principal.Tenant != "globex" {
						t.Errorf("after: session %q, tenant %s", q.Session, q.Principal.Tenant)
					}
					return nil
				}
			})
			resp, body := do(t, x.addr, post(plainBody, "X-Conversation: c-1\r\n"))
			if resp.StatusCode != c.status {
				t.Fatalf("got %d %s, want %d", resp.StatusCode, body, c.status)
			}
			if c.status == 200 {
				r.outcome(t)
			}
			if seen.Get("X-Conversation") != "" {
				t.Error("the hint reached the engine")
			}
		})
	}
}
