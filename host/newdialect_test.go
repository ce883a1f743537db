package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// esperanto is a made-up dialect, declared as its file in host/dialect would declare it.
var esperanto = dialect.Register(dialect.Dialect{
	Name: "esperanto", Title: "Esperanto",
	Salt: dialect.Salt{Field: "cache_domain", In: dialect.Chat | dialect.Completions,
		Since: []dialect.Since{{In: dialect.Chat, Major: 2}}},
	Priority:    dialect.Priority{Field: "urgency", In: dialect.Chat, LowerFirst: true},
	Has:         []dialect.Members{{In: dialect.Chat, Names: "warmth"}},
	Lacks:       []string{"logit_bias"},
	Internal:    []string{"worker"},
	StreamUsage: true,
	Health:      "/ok", Metrics: "/figures",
	Parse: func(text []byte) dialect.Metrics {
		m, _ := dialect.MetricsOf([]dialect.Figure{{ID: dialect.FigureRunning, Value: float64(len(text))}})
		return m
	},
	Discover: func(ctx context.Context, c *dialect.Client) (dialect.Capabilities, error) {
		models, longest, err := c.Models(ctx)
		return dialect.Capabilities{Version: "2.1", Models: models, MaxModelLen: longest}, err
	},
	BlockTokens: 8,
})

// esperantoEngine is an engine that uses this dialect. chats are the bodies that it received.
type esperantoEngine struct {
	*httptest.Server
	mu    sync.Mutex
	chats []string
}

func newEsperantoEngine(t *testing.T) *esperantoEngine {
	e := new(esperantoEngine)
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/figures", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "seven!!") })
	mux.HandleFunc("/v1/models",
		func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"data":[{"id":"m"}]}`) })
	mux.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		e.chats = append(e.chats, string(b))
		e.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
	})
	e.Server = httptest.NewServer(mux)
	t.Cleanup(e.Close)
	return e
}

// runDialect runs a router in front of one engine of a dialect until the test ends, and
// waits until the endpoint is ready.
func runDialect(t *testing.T, name, url string) *Host {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kvasir.yaml")
	save(t, file,
		fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {http: \"127.0.0.1:0\"}\nidentity: {anonymous: {tenant: local}}\n"+
			"state_dir: %s\n"+
			"pools: [{name: main, dialect: %s, endpoints: [%q]}]\nmodels: [{name: m, pools: [main]}]\n", t.TempDir(), name, url))
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(cfg, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	for range 1000 {
		if st := h.store.Load().State(endpoint.ID(0)); st.Ready && st.Running > 0 {
			return h
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the endpoint does not serve")
	return nil
}

// TestDialect_oneDeclaration checks that one declaration suffices for a dialect: the
// configuration accepts its name, the router monitors its engines, and edits requests to
// them as the declaration requires.
func TestDialect_oneDeclaration(t *testing.T) {
	e := newEsperantoEngine(t)
	h := runDialect(t, "esperanto", e.URL)
	st := h.store.Load().State(endpoint.ID(0))
	if st.Running != 7 || st.BlockTokens != 8 || len(st.Models) != 1 {
		t.Errorf("state %+v", st)
	}
	if got, want := llmapi.Operations(st.NoSalt), llmapi.Prompts&^(1<<llmapi.OpChat|1<<llmapi.OpCompletions); got != want {
		t.Errorf("operations without salts %b, want %b", got, want)
	}
	if got := llmapi.Unsalted(esperanto, "1.9"); !got.Has(llmapi.OpChat) || got.Has(llmapi.OpCompletions) {
		t.Errorf("operations without salts of an older release: %b", got)
	}
	const body = `{"model":"m","messages":[{"role":"user","content":"saluton"}],` +
		`"warmth":1,"worker":3,"cache_domain":"mine","urgency":1}`
	resp, err := http.Post("http://"+h.Addr()+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	if resp.StatusCode != 200 || len(e.chats) != 1 {
		t.Fatalf("status %d, %d requests at the engine", resp.StatusCode, len(e.chats))
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(e.chats[0]), &got); err != nil {
		t.Fatal(err)
	}
	if salt, _ := got["cache_domain"].(string); len(salt) < 20 || got["warmth"] != 1.0 || got["worker"] != nil ||
		got["urgency"] != nil {
		t.Errorf("the engine received %v", got)
	}
}

// TestDialect_edits checks that edits of priority, streams and unknown fields follow the
// declaration too.
func TestDialect_edits(t *testing.T) {
	for _, c := range []struct {
		body, want string
		rw         llmapi.Rewrite
	}{
		{`{"urgency":9}`, `{"urgency":-5}`, llmapi.Rewrite{Priority: 5}},
		{`{"stream":true}`, `{"stream":true,"stream_options":{"include_usage":true}}`, llmapi.Rewrite{ForceUsage: true}},
		{`{"warmth":1,"logit_bias":{},"top_k":1}`, `{"warmth":1}`, llmapi.Rewrite{UnknownFields: "drop"}},
	} {
		var r llmapi.Request
		if err := r.Scan(llmapi.OpChat, []byte(c.body)); err != nil {
			t.Fatal(err)
		}
		c.rw.Dialect = esperanto.Name
		edits, err := r.AppendEdits(nil, &c.rw)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(bytes.Join(llmapi.AppendParts(nil, r.Body, edits), nil)); got != c.want {
			t.Errorf("%s became %s, want %s", c.body, got, c.want)
		}
	}
}
