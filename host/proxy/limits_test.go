package proxy

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// TestLimits_headers: every response to a request with limits reports them: an
// engine's answer, whose own budget is not disclosed, a refusal, and the router's
// error.
func TestLimits_headers(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ *engine) {
		w.Header().Set("x-ratelimit-limit-requests", "999")
		w.Header().Set("x-ratelimit-remaining-tokens", "999")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	limits := Limits{Requests: Remaining{Limit: 60, Left: 59, Reset: time.Second},
		Tokens: Remaining{Limit: 60000, Left: 1500, Reset: 6*time.Minute + 20*time.Millisecond}}
	want := map[string]string{
		"X-Ratelimit-Limit-Requests": "60", "X-Ratelimit-Remaining-Requests": "59", "X-Ratelimit-Reset-Requests": "1s",
		"X-Ratelimit-Limit-Tokens": "60000", "X-Ratelimit-Remaining-Tokens": "1500", "X-Ratelimit-Reset-Tokens": "6m0.02s",
	}
	dead := listen(t)
	dead.Close()
	for _, c := range []struct {
		name   string
		addr   string
		err    error
		status int
		retry  string
	}{
		{"answer", e.addr, nil, 200, ""},
		{"refusal", e.addr, &llmapi.Error{Status: 429, Code: llmapi.CodeRateLimit, Message: "x",
			RetryAfter: 1200 * time.Millisecond}, 429, "2"},
		{"hidden error", e.addr, errors.New("x"), 503, "1"},
		{"no engine", dead.Addr().String(), nil, 502, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRouter(c.addr)
			r.schedule = func(q *Request) error {
				q.Limits = limits
				return c.err
			}
			x := start(t, r)
			resp, _ := do(t, x.addr, post(plainBody))
			if resp.StatusCode != c.status || resp.Header.Get("Retry-After") != c.retry {
				t.Errorf("got %d, Retry-After %q, want %d, %q", resp.StatusCode, resp.Header.Get("Retry-After"), c.status, c.retry)
			}
			for k, v := range want {
				if got := resp.Header.Values(k); len(got) != 1 || got[0] != v {
					t.Errorf("%s: got %q, want %q", k, got, v)
				}
			}
		})
	}
}

// TestLimits_none: without limits, and for the next request of a pooled stream,
// nothing is reported.
func TestLimits_none(t *testing.T) {
	e := newEngine(t, answerOK)
	r := newRouter(e.addr)
	x := start(t, r)
	for _, l := range []Limits{{Tokens: Remaining{Limit: 5}}, {}} {
		r.set(func() { r.schedule = func(q *Request) error { q.Limits = l; return nil } })
		resp, _ := do(t, x.addr, post(plainBody))
		if got := resp.Header.Get("x-ratelimit-limit-requests"); got != "" {
			t.Errorf("got limit of requests %q", got)
		}
		if got := resp.Header.Get("x-ratelimit-limit-tokens"); (got != "") != (l.Tokens.Limit > 0) {
			t.Errorf("limits %+v: told %q", l, got)
		}
		r.outcome(t)
	}
}

// TestLimits_anthropic: the headers of the messages API, whose times are points
// in time that lie not before the reset.
func TestLimits_anthropic(t *testing.T) {
	var h fasthttp.ResponseHeader
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for in, want := range map[time.Duration]string{
		0: "2026-01-02T03:04:06Z", time.Second: "2026-01-02T03:04:07Z", 90 * time.Minute: "2026-01-02T04:34:06Z",
	} {
		if got := string(anthropicLimits.appendReset(nil, in, now)); got != want {
			t.Errorf("reset in %v: got %s, want %s", in, got, want)
		}
	}
	s := &stream{req: Request{API: &llmapi.Request{}, Limits: Limits{Requests: Remaining{Limit: 3, Left: 2}}}}
	s.setLimitHeaders(&h)
	if got := string(h.Peek("x-ratelimit-remaining-requests")); got != "2" {
		t.Errorf("got %q, want 2", got)
	}
}
