package host

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// placeMany places n requests and returns how long it took and the explanation of the
// last one.
func placeMany(t *testing.T, h *Host, n int) (time.Duration, *scheduler.Explanation) {
	t.Helper()
	l := h.rules.Acquire()
	defer l.Release()
	began := time.Now()
	for range n {
		var api llmapi.Request
		if err := api.Scan(llmapi.OpChat,
			[]byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)); err != nil {
			t.Fatal(err)
		}
		p, err := l.Value().Scheduler.Schedule(&scheduler.Request{API: &api, Principal: &identity.Principal{Tenant: "local"}})
		if err != nil {
			t.Fatal(err)
		}
		p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete})
	}
	return time.Since(began), placeOne(t, h, "last")
}

// TestSlowPlugins checks that a slow scorer is refused with the time that it takes, and
// that one that becomes slow is no longer called after a few calls. Requests are placed
// as fast as without it.
func TestSlowPlugins(t *testing.T) {
	const requests = 8000
	plain, _ := startHost(t, t.TempDir(), "profiles: [{name: default, holdout: 0, scorers: [{builtin: leastwork}]}]\n")
	usual, _ := placeMany(t, plain, requests)
	for name, refused := range map[string]bool{"random_loop": true, "arithmetic": true, "drift": false} {
		t.Run(name, func(t *testing.T) {
			code, err := (&guests.Guest{File: name}).Code()
			if err != nil {
				t.Fatal(err)
			}
			h, _ := startHost(t, t.TempDir(), usesMine)
			_, err = h.plugins.Push(t.Context(), "mine", code, true, "")
			if refused != errors.Is(err, admin.ErrRefused) {
				t.Errorf("pushed: %v", err)
			}
			if refused && (err == nil || !strings.Contains(err.Error(), "of processor time, at most 2ms")) {
				t.Errorf("the refusal does not state how long a call takes: %v", err)
			}
			took, last := placeMany(t, h, requests)
			for range 2 { // other load of the machine passes, calls of the plugin would not
				if took <= 3*usual+300*time.Millisecond {
					break
				}
				usual, _ = placeMany(t, plain, requests)
				took, last = placeMany(t, h, requests)
			}
			t.Logf("%v for %d requests, %v without the plugin", took, requests, usual)
			if took > 3*usual+300*time.Millisecond {
				t.Errorf("%d requests took %v, %v without the plugin", requests, took, usual)
			}
			if !refused && !strings.Contains(last.Plugins[0].Fault, "processor time") {
				t.Errorf("placed by %+v", last.Plugins)
			}
			if list := listed(t, h); !refused && !strings.Contains(list, `"state": "quarantined"`) {
				t.Errorf("listed as %s", list)
			}
		})
	}
}
