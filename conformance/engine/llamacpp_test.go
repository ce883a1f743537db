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

// startLlama starts a llama.cpp server and returns its URL once it serves.
func startLlama(t *testing.T) string {
	t.Helper()
	dir, port := engineDir(t), harness.FreePort(t)
	p := harness.Start(t, exec.Command(filepath.Join(dir, "llamacpp", "bin", "python"), filepath.Join(scripts(t),
		"llamacpp-serve.py"), filepath.Join(dir, "tiny.gguf"), strconv.Itoa(port)))
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	harness.Await(t, 60*time.Second, "llama.cpp serves", func() bool {
		select {
		case <-p.Ended():
			t.Fatalf("llama.cpp ended:\n%s", p.Log)
		default:
		}
		return harness.Get(url+"/health", "") == 200
	})
	return url
}

// mixed runs vLLM and llama.cpp in one fleet for one model: both are used, and
// what is drained by hand takes no further request while the other does.
func (f *fleet) mixed(t *testing.T) {
	f.router.Kill() // vLLM's publisher connects to its one subscriber, which listens
	defer func() {
		f.router.Restart(t)
		f.live(t)
	}()
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
pools:
- {name: gpu, endpoints: [`+strconv.Quote(f.engines[0].URL)+`]}
- {name: cpu, dialect: llamacpp, endpoints: [`+strconv.Quote(startLlama(t))+`]}
models: [{name: tiny, pools: [gpu, cpu], tokenizer: {dir: `+filepath.Join(engineDir(t), "tiny-qwen3")+`}}]
profiles: [{name: default, holdout: 0}]
`)
	defer r.Kill()
	r.EventsLive(t, 1, 60*time.Second)
	used := map[string]int{}
	ask := func(c *chat) {
		a, err := harness.Post(r.URL+"/v1/chat/completions", "", c.body(0))
		if err != nil || a.Status != 200 {
			t.Fatalf("%s: %v %+v", c.name, err, a)
		}
		used[harness.Explain(t, r.Admin, r.Token, a.RequestID).Chosen]++
	}
	for _, c := range chats(16, 1) {
		ask(c)
	}
	if len(used) != 2 {
		t.Errorf("used %v, want both engines", used)
	}
	if status, b := harness.Do("POST", r.Admin+"/v1/endpoints/drain?endpoint="+f.engines[0].URL, r.Token); status != 200 {
		t.Fatalf("drain: %d %s", status, b)
	}
	before := used[f.engines[0].URL]
	for _, c := range chats(6, 1) {
		ask(c)
	}
	if used[f.engines[0].URL] != before {
		t.Errorf("the drained engine took %d requests", used[f.engines[0].URL]-before)
	}
}

// TestLlamaCpp runs the router before two llama.cpp servers, which have neither
// cache events nor salts: placement by prediction alone, one anonymous tenant.
func TestLlamaCpp(t *testing.T) {
	dir := engineDir(t)
	urls := []string{strconv.Quote(startLlama(t)), strconv.Quote(startLlama(t))}
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
pools: [{name: main, dialect: llamacpp, endpoints: [`+strings.Join(urls, ", ")+`], events: {mode: "off"}}]
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
