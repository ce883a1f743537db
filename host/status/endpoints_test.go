package status

import (
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

func TestStateWord(t *testing.T) {
	for want, s := range map[string]endpoint.State{
		"ready": {Ready: true}, "not ready": {}, "sleeping": {Ready: true, Sleeping: true},
		"cordoned": {Ready: true, Cordoned: true},
		"draining": {Ready: true, Draining: true}, "held cordoned": {Ready: true, Held: endpoint.HoldCordoned},
		"held drained": {Ready: true, Draining: true, Held: endpoint.HoldDrained},
	} {
		if got := stateWord(&s, endpoint.BreakerClosed); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}

func TestStateWord_breaker(t *testing.T) {
	for _, c := range []struct {
		s    endpoint.State
		b    endpoint.BreakerState
		want string
	}{
		{endpoint.State{Ready: true}, endpoint.BreakerOpen, "breaker open"},
		{endpoint.State{Ready: true}, endpoint.BreakerHalfOpen, "breaker half open"},
		{endpoint.State{Ready: true, Cordoned: true}, endpoint.BreakerOpen, "breaker open"},
		{endpoint.State{}, endpoint.BreakerOpen, "not ready"},
		{endpoint.State{Ready: true, Draining: true}, endpoint.BreakerOpen, "draining"},
	} {
		if got := stateWord(&c.s, c.b); got != c.want {
			t.Errorf("%+v, breaker %d: got %q, want %q", c.s, c.b, got, c.want)
		}
	}
}
