//go:build engine

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// priorityPolicy gives each request the class it asks for.
var priorityPolicy = map[string]string{
	"kvasir/decision.rego": `package kvasir

default decision := {"allow": false, "reason": "undefined"}

decision := {
	"allow": true,
	"constraints": [{"label": "pool", "op": "in", "values": ["main"]}],
	"priority": input.request.priority,
} if input.request.priority != ""
`,
	"data/data.json": `{"classes": {"high": {"priority": 10}, "standard": {"priority": 0}, "low": {"priority": -10}}}`,
}

// TestVLLM_priority: a request that policy puts first overtakes those that wait in
// a real engine, whatever priority their bodies claim, on each API that has the
// field.
func TestVLLM_priority(t *testing.T) {
	e := startVLLM(t, 1, "--scheduling-policy", "priority", "--max-num-seqs", "1")[0]
	dir := filepath.Join(t.TempDir(), "policy")
	for name, text := range priorityPolicy {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
policy: {dir: `+dir+`}
pools: [{name: main, endpoints: [`+strconv.Quote(e.URL)+`], events: {mode: "off"}, priority: on}]
models: [{name: tiny, pools: [main], tokenizer: {dir: `+filepath.Join(engineDir(t), "tiny-qwen3")+`}}]
`)
	for path, c := range map[string]struct {
		limit string
		body  map[string]any
	}{
		"/v1/chat/completions": {"max_tokens", map[string]any{"messages": []any{map[string]any{"role": "user",
			"content": "x"}}, "ignore_eos": true}},
		"/v1/completions": {"max_tokens", map[string]any{"prompt": "x", "ignore_eos": true}},
		"/v1/responses":   {"max_output_tokens", map[string]any{"input": "x", "ignore_eos": true}},
	} {
		t.Run(path, func(t *testing.T) {
			var mu sync.Mutex
			var ended []string
			var wg sync.WaitGroup
			send := func(class, name string, claim, tokens int) {
				body := map[string]any{"model": "tiny", "priority": claim, c.limit: tokens}
				for k, v := range c.body {
					body[k] = v
				}
				wg.Go(func() {
					a, err := harness.Post(r.URL+path, "", body, "x-kvasir-priority", class)
					if err != nil || a.Status != 200 {
						t.Errorf("%s: %v %+v", name, err, a)
						return
					}
					mu.Lock()
					ended = append(ended, name)
					mu.Unlock()
				})
			}
			waiting := func(n float64) {
				t.Helper()
				harness.Await(t, 60*time.Second, fmt.Sprint(n, " requests wait in the engine"), func() bool {
					return metric(t, e.URL, "vllm:num_requests_waiting{", "") >= n
				})
			}
			send("standard", "first", 0, 400)
			harness.Await(t, 60*time.Second, "the first runs", func() bool {
				return metric(t, e.URL,
					"vllm:num_requests_running{", "") >= 1
			})
			for i := range 3 {
				send("low", fmt.Sprint("low ", i), -99, 20) // claims to be the most urgent
			}
			waiting(3)
			send("high", "high", 99, 5) // claims to be the least
			waiting(4)
			wg.Wait()
			if len(ended) != 5 || slices.Index(ended, "high") > 1 {
				t.Errorf("ended in the order %q, want high before every low", ended)
			}
		})
	}
}
