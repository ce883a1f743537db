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
		if got := stateWord(&s); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}
