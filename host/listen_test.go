package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
)

// TestListen_bodyTimeout checks that a request whose client stops sending its body is
// refused after listen.body_timeout.
func TestListen_bodyTimeout(t *testing.T) {
	x := newLive(t)
	x.write("kvasir.yaml", strings.Replace(x.yaml("anonymous: {tenant: acme}", fmt.Sprintf("endpoints: [%q]", x.engine()),
		""),
		"listen: 127.0.0.1:0", `listen: {http: "127.0.0.1:0", body_timeout: 200ms}`, 1))
	x.start()
	c, err := net.Dial("tcp", x.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 408 ") {
		t.Errorf("got %q, %v, want status 408", b, err)
	}
}

// TestListen_corsOrigins checks that scripts of listed origins may read answers, and
// that a reload changes the list.
func TestListen_corsOrigins(t *testing.T) {
	x := newLive(t)
	config := func(origin string) string {
		return strings.Replace(x.yaml("anonymous: {tenant: acme}", fmt.Sprintf("endpoints: [%q]", x.engine()), ""),
			"listen: 127.0.0.1:0", fmt.Sprintf(`listen: {http: "127.0.0.1:0", cors_origins: [%q]}`, origin), 1)
	}
	allowed := func(origin string) bool {
		req, err := http.NewRequest("OPTIONS", "http://"+x.Addr()+"/v1/chat/completions", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.Header.Get("Access-Control-Allow-Origin") == origin
	}
	x.write("kvasir.yaml", config("https://a.example"))
	x.start()
	if !allowed("https://a.example") || allowed("https://b.example") {
		t.Error("the listed origin is refused, or another one is allowed")
	}
	x.write("kvasir.yaml", config("https://b.example"))
	for end := time.Now().Add(10 * time.Second); !allowed("https://b.example"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the reload did not change the origins")
		}
	}
}

// TestLimits_drainTimeout checks that a router that stops aborts requests in progress
// after limits.drain_timeout.
func TestLimits_drainTimeout(t *testing.T) {
	x := newLive(t)
	arrived := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" {
			x.engineHandler().ServeHTTP(w, r)
			return
		}
		io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	}))
	t.Cleanup(engine.Close)
	x.write("kvasir.yaml", x.yaml("anonymous: {tenant: acme}", fmt.Sprintf("endpoints: [%q]", engine.URL),
		"limits: {drain_timeout: 200ms}\n"))
	cfg, err := config.Load(x.path("kvasir.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(cfg, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx, nil) }()
	<-h.Ready()
	status := make(chan int, 1)
	go func() {
		resp, err := http.Post("http://"+h.Addr()+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model": "m", "messages": [{"role": "user", "content": "hello"}]}`))
		if err != nil {
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-arrived
	from := time.Now()
	stop()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the router did not stop")
	}
	if took := time.Since(from); took < 200*time.Millisecond || took > 10*time.Second {
		t.Errorf("the router stopped after %v, want about 200ms", took)
	}
	if got := <-status; got != http.StatusServiceUnavailable {
		t.Errorf("got status %d for the aborted request, want 503", got)
	}
}
