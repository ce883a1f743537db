package proxy

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/testdeps"
)

// onePlacement is a router that allocates nothing.
type onePlacement struct {
	fakeRouter
	t exchange.Target
}

var onePrincipal identity.Principal

func (p *onePlacement) Authenticate(*identity.Credentials) (*identity.Principal, error) {
	return &onePrincipal, nil
}

func (p *onePlacement) Schedule(*Request) (Placement, error) { return p, nil }
func (p *onePlacement) Target() *exchange.Target             { return &p.t }
func (p *onePlacement) Next(int) bool                        { return false }
func (p *onePlacement) FirstToken()                          {}
func (p *onePlacement) Answered(string)                      {}
func (p *onePlacement) Done(*exchange.Outcome)               {}

// quietEngine answers every request with the bytes of answer, allocating nothing
// per request. end is how a request ends.
func quietEngine(t testing.TB, answer []byte, end []byte) string {
	ln := listen(t)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 1<<20)
				n := 0
				for {
					m, err := c.Read(buf[n:])
					if err != nil {
						return
					}
					if n += m; bytes.HasSuffix(buf[:n], end) {
						n = 0
						c.Write(answer)
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// exchanger sends raw and reads until what came ends with end.
func exchanger(t testing.TB, addr, raw string, end []byte) func() {
	c, _ := dial(t, addr)
	c.SetDeadline(time.Time{})
	out := []byte(raw)
	buf := make([]byte, 1<<20)
	return func() {
		if _, err := c.Write(out); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; {
			m, err := c.Read(buf[n:])
			if err != nil {
				t.Fatal(err)
			}
			if n += m; bytes.HasSuffix(buf[:n], end) {
				return
			}
		}
	}
}

const plainJSON = `{"id":"c-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":9}}`

var plainAnswer = fmt.Sprintf("HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 12:00:00 GMT\r\nserver: uvicorn\r\n"+
	"content-length: %d\r\n"+
	"content-type: application/json\r\n\r\n%s", len(plainJSON), plainJSON)

func startQuiet(t testing.TB, answer, reqEnd string) string {
	r := &onePlacement{t: exchange.Target{Addr: quietEngine(t, []byte(answer), []byte(reqEnd)),
		Rewrite: llmapi.Rewrite{ForceUsage: true}}}
	return startRouter(t, r).addr
}

func streamAnswer(n int) string {
	var b strings.Builder
	b.WriteString(sseHead + "Transfer-Encoding: chunked\r\n\r\n")
	for range n {
		b.WriteString(chunked(vllmEvents[:strings.Index(vllmEvents, "\n\n")+2]))
	}
	return b.String() + chunked(vllmUsage) + chunked(doneEvent) + "0\r\n\r\n"
}

// apiAnswer is a stream of an API, an event in each chunk.
func apiAnswer(a *api) string {
	var b strings.Builder
	b.WriteString(sseHead + "Transfer-Encoding: chunked\r\n\r\n")
	for e := range strings.SplitAfterSeq(a.events+a.end, "\n\n") {
		if e != "" {
			b.WriteString(chunked(e))
		}
	}
	return b.String() + "0\r\n\r\n"
}

func TestAllocs(t *testing.T) {
	if testdeps.Race {
		return // the race detector allocates
	}
	for _, tc := range []struct {
		name, answer, body, end string
		most                    float64
	}{
		{"plain", plainAnswer, plainBody, "}}", 2},
		{"stream", streamAnswer(50), streamBody, "0\r\n\r\n", 3},
		{"large", plainAnswer, `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 400_000) + `"}]}`,
			"}}", 3},
		{"responses", apiAnswer(&streamAPIs[0]), streamAPIs[0].body, "0\r\n\r\n", 4}, // its id
		{"messages", apiAnswer(&streamAPIs[1]), streamAPIs[1].body, "0\r\n\r\n", 3},
	} {
		path := "/v1/chat/completions"
		for _, a := range streamAPIs {
			if a.body == tc.body {
				path = a.path
			}
		}
		f := exchanger(t, startQuiet(t, tc.answer, "}"),
			strings.Replace(post(tc.body, "Authorization: Bearer x\r\nUser-Agent: test\r\nAccept: */*\r\n"),
				"/v1/chat/completions", path, 1), []byte(tc.end))
		for range 20 {
			f()
		}
		runtime.GC()
		got := testing.AllocsPerRun(200, f)
		t.Logf("%s: %.0f allocations per request", tc.name, got)
		if got > tc.most+moreAllocs {
			t.Errorf("%s: %.1f allocations per request, want at most %.0f", tc.name, got, tc.most+moreAllocs)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	large := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 400_000) + `"}]}`
	for _, tc := range []struct{ name, answer, body, end string }{
		{"small", plainAnswer, plainBody, "}}"},
		{"prompt=400KB", plainAnswer, large, "}}"},
		{"stream=200events", streamAnswer(200), streamBody, "0\r\n\r\n"},
	} {
		b.Run("kvasir/"+tc.name, func(b *testing.B) {
			f := exchanger(b, startQuiet(b, tc.answer, "}"), post(tc.body), []byte(tc.end))
			f()
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
	// For comparison: fasthttp alone, which forwards nothing.
	b.Run("fasthttp_echo/small", func(b *testing.B) {
		ln := listen(b)
		s := &fasthttp.Server{NoDefaultServerHeader: true, Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.SetBodyString(`{"usage":{}}`)
		}}
		go s.Serve(ln)
		b.Cleanup(func() { s.Shutdown() })
		f := exchanger(b, ln.Addr().String(), post(plainBody), []byte("}}"))
		b.ReportAllocs()
		for b.Loop() {
			f()
		}
	})
	b.Run("direct/small", func(b *testing.B) {
		f := exchanger(b, quietEngine(b, []byte(plainAnswer), []byte("}")), post(plainBody), []byte("}}"))
		b.ReportAllocs()
		for b.Loop() {
			f()
		}
	})
}
