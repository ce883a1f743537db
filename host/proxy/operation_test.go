package proxy

import (
	"bufio"
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// opRerank is an operation that exists in this test binary only. Its row is all
// that is said of it.
var opRerank = llmapi.Register(llmapi.Spec{
	Name: "rerank", Method: "POST", Path: "/v1/rerank", Family: llmapi.FamilyOpenAI, Stream: llmapi.StreamChunks,
	Fields: llmapi.FieldsCompletions, Shape: llmapi.ShapeText, PromptFields: []string{"prompt"}, Computes: true,
	Limit: "max_tokens", Once: true, ABI: abi.OperationOther,
})

// TestOperation_madeUp: one row makes the router serve an operation: its path,
// scan, edits, stream, usage and errors.
func TestOperation_madeUp(t *testing.T) {
	addr, captured := recorder(t)
	r := newRouter(addr)
	r.targets[0].Rewrite = llmapi.Rewrite{Model: "served", MaxTokens: 9, ForceUsage: true, SetSalt: true, Salt: "s",
		Dialect: "vllm"}
	x := start(t, r)
	resp, _ := do(t, x.addr, strings.Replace(post(`{"model":"m","prompt":"x","stream":true}`), "/v1/chat/completions",
		"/v1/rerank", 1))
	if resp.StatusCode != 200 {
		t.Fatalf("got status %d", resp.StatusCode)
	}
	raw := <-captured
	_, body, _ := bytes.Cut(raw, crlf2)
	want := `{"model":"served","prompt":"x","stream":true,"cache_salt":"s","stream_options":{"include_usage":true},` +
		`"max_tokens":9}`
	if !bytes.HasPrefix(raw, []byte("POST /v1/rerank HTTP/1.1\r\n")) || string(body) != want {
		t.Errorf("the engine got %q", raw)
	}
	if o := r.outcome(t); o.End != exchange.EndComplete {
		t.Errorf("got %+v", o)
	}
	if opRerank.String() != "rerank" || !llmapi.Prompts.Has(opRerank) || opRerank.PromptParam() != "prompt" ||
		!strings.Contains(llmapi.Served(), "/v1/rerank") {
		t.Error("the row is not what policies, placement or the text of a 404 see")
	}
	resp, text := do(t, x.addr, strings.Replace(post(`{"model":1}`), "/v1/chat/completions", "/v1/rerank", 1))
	if resp.StatusCode != 400 || errorOf(t, text) != "invalid_type" {
		t.Errorf("got %d %q", resp.StatusCode, text)
	}
}

// TestOperation_once: what must not be sent twice is not, once an engine may have
// seen it; an engine that cannot be reached has not.
func TestOperation_once(t *testing.T) {
	for _, tc := range []struct {
		name, first string
		status      int
	}{
		{"refused", "dead", 200},
		{"closed_without_a_byte", "", 502},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr, captured := recorder(t)
			first := deadAddr(t)
			if tc.first != "dead" {
				first = rawEngine(t, func(_ net.Conn, br *bufio.Reader) { request(br) })
			}
			r := newRouter(first, addr)
			x := start(t, r)
			resp, body := do(t, x.addr, strings.Replace(post(`{"model":"m","prompt":"x"}`), "/v1/chat/completions", "/v1/rerank",
				1))
			if resp.StatusCode != tc.status {
				t.Errorf("got %d %q, want %d", resp.StatusCode, body, tc.status)
			}
			if tc.status == 200 {
				<-captured
			}
		})
	}
}
