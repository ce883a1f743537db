package route

import (
	"errors"
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// reread is a client whose head was read by an earlier revision n times.
type reread struct {
	client
	n   int
	err error
}

func (c *reread) head(e *proxy.Edge, req *scheduler.Request) (again bool, err error) {
	if c.n--; c.n >= 0 {
		return true, c.err
	}
	return c.client.head(e, req)
}

// TestDecide_readsTheHeadAgain: a request is decided by the revision by which its
// head was read, and one that the new revision does not accept is not placed. Every lease
// is released.
func TestDecide_readsTheHeadAgain(t *testing.T) {
	gone := errors.New("the key is revoked")
	for name, c := range map[string]struct {
		head *reread
		want error
	}{
		"same revision":    {&reread{client: client{tenant: "a"}}, nil},
		"two reloads":      {&reread{client: client{tenant: "a"}, n: 2}, nil},
		"not accepted now": {&reread{client: client{tenant: "a"}, n: 1, err: gone}, gone},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, scheduler.Queue{})
			api := new(llmapi.Request)
			if err := api.Scan(llmapi.OpChat, []byte(`{"model":"m","messages":[]}`)); err != nil {
				t.Fatal(err)
			}
			p, err := r.decide(c.head, &scheduler.Request{API: api, ID: "x"})
			if !errors.Is(err, c.want) || (err == nil) != (p != nil) {
				t.Errorf("got %v, %v, want error %v", p, err, c.want)
			}
			if n := r.leases.Load(); n != 0 {
				t.Errorf("%d leases are left", n)
			}
			if p != nil {
				done(p)
			}
		})
	}
}
