package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// writeNumbered writes a policy whose decisions contain its number in a rule's id, which
// comes from the rules, and in the trust group, which comes from data.
func writeNumbered(t testing.TB, dir string, number int) {
	t.Helper()
	for _, d := range []string{"kvasir", "data"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	save(t, filepath.Join(dir, "kvasir", "decision.rego"), fmt.Sprintf(`package kvasir

default decision := {"allow": false, "reason": "undefined"}

# METADATA
# labels: {id: rule_%d}
decision := {
	"allow": true,
	"constraints": [{"label": "pool", "op": "in", "values": ["main"]}],
	"cache": {"scope": "group", "group": data.group},
} if input.request.model != ""
`, number))
	save(t, filepath.Join(dir, "data", "data.json"), fmt.Sprintf(`{"group": "g%d"}`, number))
}

// TestPolicies_stress replaces the policy, reloads everything, scans the directory and
// requests the status while requests are decided. Each decision has the parts of one
// policy only.
func TestPolicies_stress(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "policy")
	writeNumbered(t, dir, 0)
	h, _ := startHost(t, t.TempDir(), fmt.Sprintf("policy: {dir: %q}\n", dir))
	editions := 30
	if testing.Short() {
		editions = 15
	}
	var stop atomic.Bool
	var mu sync.Mutex // guards seen
	seen := map[string]string{}
	var wg sync.WaitGroup
	repeat := func(f func()) {
		wg.Go(func() {
			for !stop.Load() {
				f()
			}
		})
	}
	var api llmapi.Request
	if err := api.Scan(llmapi.OpChat, []byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		repeat(func() {
			l := h.rules.Acquire()
			defer l.Release()
			e := l.Value().Scheduler.DryRun(&scheduler.Request{API: &api, Principal: &identity.Principal{Tenant: "local"},
				ID: "dry-run"})
			if e == nil {
				return // the rules are being replaced
			}
			if !e.Allow || len(e.Rules) != 1 || e.Revision != l.Value().Number ||
				e.PolicyRevision != l.Value().Policy().Revision() {
				t.Errorf("got %+v", e)
				stop.Store(true)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			parts := e.Rules[0] + " " + e.NamespaceHash
			if old := seen[e.PolicyRevision]; old != "" && old != parts {
				t.Errorf("revision %s: %s and %s", e.PolicyRevision, old, parts)
			}
			seen[e.PolicyRevision] = parts
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wg.Go(func() { h.policies.Watch(ctx, h.rules, h.note) })
	repeat(func() { h.Reload() })
	repeat(func() {
		if st := h.policy().Status(); st.Engine != "opa" || st.State == "unloaded" {
			t.Errorf("got %+v", st)
		}
	})
	for i := 1; i <= editions && !stop.Load(); i++ {
		writeNumbered(t, dir, i)
		if i%10 == 5 {
			save(t, filepath.Join(dir, "kvasir", "broken.rego"), "package kvasir\n\nx {")
			if _, err := h.policy().ReloadPolicy(context.Background(), false); err == nil ||
				!strings.Contains(err.Error(), "kvasir/broken.rego:3") {
				t.Errorf("a broken policy: %v", err)
			}
			if err := os.Remove(filepath.Join(dir, "kvasir", "broken.rego")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.policy().ReloadPolicy(context.Background(), false); err != nil {
			t.Errorf("policy %d: %v", i, err)
		}
	}
	stop.Store(true)
	cancel()
	wg.Wait()
	if st := h.policy().Status(); st.State != "ok" || st.Source != "directory" {
		t.Errorf("got %+v", st)
	}
	if len(seen) < editions/10 {
		t.Errorf("only %d revisions decided requests", len(seen))
	}
	t.Logf("%d revisions of the policy decided", len(seen))
}
