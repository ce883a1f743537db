//go:build engine

package engine

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestLlamaCpp runs the router before two llama.cpp servers, which have neither
// cache events nor salts: placement by prediction alone, one anonymous tenant.
func TestLlamaCpp(t *testing.T) {
	dir := engineDir(t)
	var urls []string
	for range 2 {
		port := harness.FreePort(t)
		p := harness.Start(t, exec.Command(filepath.Join(dir, "llamacpp", "bin", "python"), filepath.Join(scripts(t), "llamacpp-serve.py"), filepath.Join(dir, "tiny.gguf"), strconv.Itoa(port)))
		url := fmt.Sprintf("http://127.0.0.1:%d", port)
		harness.Await(t, 60*time.Second, "llama.cpp serves", func() bool {
			select {
			case <-p.Ended():
				t.Fatalf("llama.cpp ended:\n%s", p.Log)
			default:
			}
			return harness.Get(url+"/health", "") == 200
		})
		urls = append(urls, strconv.Quote(url))
	}
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
pools: [{name: main, dialect: openai, endpoints: [`+strings.Join(urls, ", ")+`], events: {mode: "off"}}]
models: [{name: tiny, pools: [main], tokenizer: {dir: `+filepath.Join(dir, "qwen3")+`}}]
profiles: [{name: default, holdout: 0}]
`)
	cs := chats(12, 3)
	moved := 0
	for _, c := range cs {
		for n := range c.turns {
			before := c.engine
			a, err := harness.Post(r.URL+"/v1/chat/completions", "", c.body(n))
			if err != nil || a.Status != 200 {
				t.Fatalf("%s: %v %+v", c.name, err, a)
			}
			got, err := a.Completion()
			if err != nil || got.Usage == nil {
				t.Fatalf("%s: %v: %s", c.name, err, a.Body)
			}
			c.answer(got.Choices[0].Message.Content)
			e := harness.Explain(t, r.Admin, r.Token, a.RequestID)
			c.engine = e.Chosen
			if before != "" && before != e.Chosen {
				moved++
			}
			if cached, ok := got.Usage.Cached(); n > 0 && before == e.Chosen && ok && cached == 0 {
				t.Logf("%s turn %d: the engine reused nothing", c.name, n)
			}
		}
	}
	if moved > 2 {
		t.Errorf("%d turns moved to another engine, want at most 2 of 24", moved)
	}
	body := chats(1, 1)[0].body(0)
	body["stream"] = true
	a, err := harness.Post(r.URL+"/v1/chat/completions", "", body)
	if err != nil || a.Status != 200 || !strings.HasSuffix(strings.TrimSpace(string(a.Body)), "data: [DONE]") {
		t.Errorf("streamed: %v, status %d, end %q", err, a.Status, a.Body[max(0, len(a.Body)-80):])
	}
}
