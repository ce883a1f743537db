package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/statedir"
)

// liveRouter is a running router in front of one engine that answers every request.
type liveRouter struct {
	*Host
	t   *testing.T
	dir string // holds kvasir.yaml, keys.json and the files that a test adds
	log *syncBuffer

	level *slog.LevelVar // of the log; nil = it does not change

	mu   sync.Mutex
	seen http.Header // of the last prompt that reached the engine
	body string
}

// syncBuffer is a strings.Builder for a logger. It is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newLive creates the directory of a router and its engine; start runs the router.
func newLive(t *testing.T) *liveRouter {
	t.Helper()
	return &liveRouter{t: t, dir: t.TempDir(), log: new(syncBuffer)}
}

// engine starts an engine and returns its base URL.
func (x *liveRouter) engine() string {
	s := httptest.NewServer(x.engineHandler())
	x.t.Cleanup(s.Close)
	return s.URL
}

// engineHandler returns the handler of x's engine.
func (x *liveRouter) engineHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
			return
		case "/version":
			io.WriteString(w, `{"version": "0.11.0"}`)
			return
		case "/metrics":
			io.WriteString(w, "vllm:num_requests_running{model_name=\"m\"} 0\nvllm:num_requests_waiting{model_name=\"m\"} 0\n")
			return
		case "/v1/models":
			io.WriteString(w, `{"object": "list", "data": [{"id": "m", "object": "model"}]}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		b, _ := io.ReadAll(r.Body)
		x.mu.Lock()
		x.seen, x.body = r.Header.Clone(), string(b)
		x.mu.Unlock()
		io.WriteString(w,
			`{"id": "c", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "message": {"role": `+
				`"assistant", "content": "x"}, "finish_reason": "stop"}]}`)
	})
}

func (x *liveRouter) path(name string) string { return filepath.Join(x.dir, name) }

// write replaces a file of the directory atomically.
func (x *liveRouter) write(name, text string) {
	x.t.Helper()
	if err := os.WriteFile(x.path(name+".new"), []byte(text), 0o600); err != nil {
		x.t.Fatal(err)
	}
	if err := os.Rename(x.path(name+".new"), x.path(name)); err != nil {
		x.t.Fatal(err)
	}
}

// yaml returns a configuration with these sections.
func (x *liveRouter) yaml(identity, pool, rest string) string {
	return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {http: \"127.0.0.1:0\"}\nidentity: {%s}\nstate_dir: %s\npools: "+
		"[{name: main, events: {mode: off}, isolation_probe: {mode: off}, %s}]\nmodels: [{name: m, pools: [main]}]\n"+
		"profiles: [{name: d, scorers: [{builtin: leastwork}]}]\n%s", identity, x.path("state"), pool, rest)
}

// start runs the router until the test ends.
func (x *liveRouter) start() {
	x.t.Helper()
	cfg, err := config.Load(x.path("kvasir.yaml"))
	if err != nil {
		x.t.Fatal(err)
	}
	if x.Host, err = New(cfg, Options{Log: slog.New(slog.NewTextHandler(x.log, nil)), LogLevel: x.level}); err != nil {
		x.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx, nil) }()
	x.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			x.t.Error(err)
		}
	})
	select {
	case <-x.Ready():
	case <-time.After(10 * time.Second):
		x.t.Fatal("not ready")
	}
}

// ask sends a prompt with a key ("" for none) and additional header fields, and returns
// the status.
func (x *liveRouter) ask(key string, fields ...string) int {
	x.t.Helper()
	req, err := http.NewRequest("POST", "http://"+x.Addr()+"/v1/chat/completions",
		strings.NewReader(`{"model": "m", "messages": [{"role": "user", "content": "hello"}]}`))
	if err != nil {
		x.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode >= 500 {
		x.t.Logf("%d %s", resp.StatusCode, b)
	}
	return resp.StatusCode
}

// turns waits until ask returns a status.
func (x *liveRouter) turns(what, key string, want int) {
	x.t.Helper()
	got := 0
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = x.ask(key); got == want {
			return
		}
	}
	x.t.Errorf("%s: got status %d, want %d", what, got, want)
}

// keyFile issues keys into a file and returns them and their ids, by tenant.
func (x *liveRouter) keyFile(name string, tenants ...string) (keys, ids map[string]string) {
	x.t.Helper()
	pepper, err := statedir.Pepper(mkdir(x.t, x.path("state")))
	if err != nil {
		x.t.Fatal(err)
	}
	keys, ids = map[string]string{}, map[string]string{}
	err = identity.Update(x.path(name), func(f *identity.KeyFile) error {
		for _, tenant := range tenants {
			key, r, err := f.Issue(pepper, identity.Grant{Tenant: tenant}, "test", time.Now())
			if err != nil {
				return err
			}
			keys[tenant], ids[tenant] = key, r.ID
		}
		return nil
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return keys, ids
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// revoke revokes a key in a file, without the router.
func (x *liveRouter) revoke(name, id string) {
	x.t.Helper()
	if err := identity.Update(x.path(name),
		func(f *identity.KeyFile) error { return f.Revoke(id, time.Now()) }); err != nil {
		x.t.Fatal(err)
	}
}

func save(t testing.TB, file, s string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
}
