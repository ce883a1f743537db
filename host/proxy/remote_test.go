package proxy

import (
	"net/netip"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
)

// TestAuthenticate_remote: failures are counted by the client's address, so the
// credentials must have it.
func TestAuthenticate_remote(t *testing.T) {
	e := newEngine(t, answerOK)
	r := newRouter(e.addr)
	got := make(chan netip.Addr, 1)
	r.auth = func(c *identity.Credentials) (*identity.Principal, error) {
		got <- c.Remote
		return &identity.Principal{Tenant: "acme"}, nil
	}
	x := start(t, r)
	if resp, _ := do(t, x.addr, post(`{"model":"m","messages":[]}`)); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	if a := <-got; !a.IsLoopback() {
		t.Errorf("the client's address is %v, want a loopback one", a)
	}
}
