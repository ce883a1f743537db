package scheduler

import (
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/policy"
)

// TestInputLabels: headers add labels to those of the credential and override none.
func TestInputLabels(t *testing.T) {
	l := func(s ...string) (out []identity.Label) {
		for i := 0; i < len(s); i += 2 {
			out = append(out, identity.Label{Name: s[i], Value: s[i+1]})
		}
		return out
	}
	for _, c := range []struct{ own, hints, want []identity.Label }{
		{nil, nil, nil},
		{l("a", "1"), nil, l("a", "1")},
		{nil, l("a", "1"), l("a", "1")},
		{l("b", "own"), l("a", "x", "b", "forged", "c", "y"), l("a", "x", "b", "own", "c", "y")},
		{l("a", "own", "c", "own"), l("a", "forged"), l("a", "own", "c", "own")},
		{l("a", "own"), l("a", "forged", "b", "y"), l("a", "own", "b", "y")},
	} {
		got := inputLabels(&Request{Principal: &identity.Principal{Labels: c.own}, Labels: c.hints})
		var want []policy.Label
		for _, x := range c.want {
			want = append(want, policy.Label(x))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v and headers %v: got %v, want %v", c.own, c.hints, got, want)
		}
	}
}
