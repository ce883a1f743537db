package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// What vLLM 0.32 sends, shortened.
const (
	responsesEvents = "event: response.created\ndata: {\"response\":{\"id\":\"resp_a1\",\"created_at\":1," +
		"\"model\":\"m\",\"tools\":[{\"name\":\"f\",\"parameters\":{\"usage\":{\"type\":\"object\"}," +
		"\"example\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}}],\"usage\":null},\"sequence_number\":0," +
		"\"type\":\"response.created\"}\n\n" +
		"event: response.output_text.delta\ndata: {\"content_index\":0,\"delta\":\"größe \\\"usage\\\":{\"," +
		"\"item_id\":\"i\",\"logprobs\":[],\"output_index\":0,\"sequence_number\":5," +
		"\"type\":\"response.output_text.delta\"}\n\n"
	responsesEnd = "event: response.completed\ndata: {\"response\":{\"id\":\"resp_a1\",\"output\":[]," +
		"\"usage\":{\"input_tokens\":120,\"input_tokens_details\":{\"cached_tokens\":96,\"cache_write_tokens\":0," +
		"\"cached_tokens_per_turn\":[96]},\"output_tokens\":7,\"output_tokens_details\":{\"reasoning_tokens\":0}," +
		"\"total_tokens\":127},\"user\":null},\"sequence_number\":10,\"type\":\"response.completed\"}\n\n"
	messagesEvents = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"chatcmpl-1\"," +
		"\"content\":[],\"model\":\"m\",\"stop_reason\":null,\"usage\":{\"input_tokens\":120,\"output_tokens\":0}}}\n\n" +
		"event: content_block_delta\ndata: {\"index\":0,\"type\":\"content_block_delta\"," +
		"\"delta\":{\"type\":\"text_delta\",\"text\":\"message_stop\"}}\n\n"
	messagesEnd = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"," +
		"\"stop_sequence\":null},\"usage\":{\"input_tokens\":24,\"output_tokens\":7,\"cache_read_input_tokens\":96}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// api is one API's stream in pieces.
type api struct {
	path, body, events, end, sick string // sick begins the event of a broken stream
}

var streamAPIs = []api{
	{"/v1/responses", `{"model":"m","input":"x","stream":true}`, responsesEvents, responsesEnd,
		"event: error\ndata: {\"type\":\"error\",\"sequence_number\":6,\"code\":\"upstream_died\",\"message\":"},
	{"/v1/messages", `{"model":"m","messages":[],"max_tokens":9,"stream":true}`, messagesEvents, messagesEnd,
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":"},
}

func (a *api) post(head ...string) string {
	return strings.Replace(post(a.body, head...), "/v1/chat/completions", a.path, 1)
}

// TestAPIs_streams: events pass as they are, one byte at a time too; usage is
// found; nothing is injected, since these streams report usage by themselves.
func TestAPIs_streams(t *testing.T) {
	for _, a := range streamAPIs {
		for _, step := range []int{1, 7, 100, 1 << 20} {
			all := a.events + a.end
			var bodies []string
			addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
				for {
					b, err := request(br)
					if err != nil {
						return
					}
					bodies = append(bodies, string(b))
					io.WriteString(c, sseHead+"Transfer-Encoding: chunked\r\n\r\n")
					for piece := range slices.Chunk([]byte(all), step) {
						io.WriteString(c, chunked(string(piece)))
					}
					io.WriteString(c, "0\r\n\r\n")
				}
			})
			r := newRouter(addr)
			r.targets[0].Rewrite.ForceUsage = true
			x := start(t, r)
			resp, got := do(t, x.addr, a.post("X-Request-Id: r1\r\n"))
			if got != all || len(bodies) != 1 || bodies[0] != a.body {
				t.Fatalf("%s, %d bytes at a time: got %q of %q", a.path, step, got, bodies)
			}
			if id := resp.Header.Get("Request-Id"); (id == "r1") != (a.path == "/v1/messages") ||
				resp.Header.Get("X-Request-Id") != "r1" {
				t.Errorf("%s: request id %q", a.path, id)
			}
			o := r.outcome(t)
			if o.End != exchange.EndComplete || !o.HasUsage || !o.HasCached || o.PromptTokens != 120 || o.OutputTokens != 7 ||
				o.CachedTokens != 96 {
				t.Errorf("%s: %+v", a.path, o)
			}
			want := []string{"resp_a1"}
			if a.path == "/v1/messages" {
				want = nil
			}
			r.set(func() {
				if !slices.Equal(r.answered, want) {
					t.Errorf("%s, %d bytes at a time: answered as %q", a.path, step, r.answered)
				}
			})
		}
	}
}

// TestAPIs_firstToken: the events of a response while its prompt waits are not its
// first token.
func TestAPIs_firstToken(t *testing.T) {
	waiting := "event: response.created\ndata: {\"response\":{\"id\":\"resp_1\"},\"sequence_number\":0," +
		"\"type\":\"response.created\"}\n\n" +
		"event: response.in_progress\ndata: {\"response\":{},\"sequence_number\":1,\"type\":\"response.in_progress\"}\n\n"
	for _, first := range []string{
		"event: response.output_item.added\ndata: {\"item\":{},\"sequence_number\":2," +
			"\"type\":\"response.output_item.added\"}\n\n",
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\"}\n\n", // not numbered
	} {
		compute := make(chan struct{})
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request, e *engine) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, waiting)
			w.(http.Flusher).Flush()
			<-compute
			io.WriteString(w, first)
		})
		r := newRouter(e.addr)
		x := start(t, r)
		c, br := dial(t, x.addr)
		io.WriteString(c, streamAPIs[0].post())
		readUntil(t, br, "response.in_progress\"}")
		if n := r.firsts.Load(); n != 0 {
			t.Errorf("%q: the first token came before it was computed", first)
		}
		close(compute)
		readUntil(t, br, first[len("event: response."):len("event: response.")+10])
		if o := r.outcome(t); o.End != exchange.EndComplete || o.TTFT <= 0 || r.firsts.Load() != 1 {
			t.Errorf("%q: %+v, %d first tokens", first, o, r.firsts.Load())
		}
	}
}

// TestAPIs_engineDies: each client gets the error event of its API; a close
// after the API's last event is success.
func TestAPIs_engineDies(t *testing.T) {
	for _, a := range streamAPIs {
		for name, sent := range map[string]string{"between events": a.events, "in an event": a.events + a.end[:40],
			"after the end": a.events + a.end} {
			addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
				if _, err := request(br); err == nil {
					io.WriteString(c, sseHead+"Transfer-Encoding: chunked\r\n\r\n"+chunked(sent))
				}
			})
			r := newRouter(addr)
			x := start(t, r)
			c, br := dial(t, x.addr)
			io.WriteString(c, a.post())
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			rest := strings.TrimPrefix(string(b), sent)
			if name == "after the end" {
				if err != nil || rest != "" || r.outcome(t).End != exchange.EndComplete {
					t.Errorf("%s %s: %v, got %q", a.path, name, err, rest)
				}
				continue
			}
			if err == nil || !strings.HasPrefix(strings.TrimLeft(rest, "\n"), a.sick) || !strings.HasSuffix(rest, "}\n\n") ||
				strings.Contains(string(b), "[DONE]") {
				t.Errorf("%s %s: %v, got %q", a.path, name, err, rest)
			}
			if _, data, ok := strings.Cut(rest, "data: "); !ok || !json.Valid([]byte(data)) {
				t.Errorf("%s %s: data %q", a.path, name, data)
			}
			if o := r.outcome(t); o.End != exchange.EndDied {
				t.Errorf("%s %s: %+v", a.path, name, o)
			}
		}
	}
}

// TestAPIs_errors: errors of the router have the form of the API of the path.
func TestAPIs_errors(t *testing.T) {
	r := newRouter(dialsNowhere(t))
	r.auth = func(c *identity.Credentials) (*identity.Principal, error) {
		if string(c.APIKey) != "good" {
			return nil, llmapi.Refuse(llmapi.CodeInvalidAPIKey, "who")
		}
		return &identity.Principal{Tenant: "acme"}, nil
	}
	r.schedule = func(q *Request) error {
		switch q.API.Model {
		case "denied":
			return llmapi.Refuse(llmapi.CodePolicyDenied, "no")
		case "limit":
			return llmapi.Refuse(llmapi.CodeRateLimit, "slow")
		case "none":
			return llmapi.Refuse(llmapi.CodeModelNotFound, "gone")
		}
		return nil
	}
	x := start(t, r)
	ask := func(path, head, body string) (int, http.Header, map[string]any) {
		t.Helper()
		resp, b := do(t, x.addr, strings.Replace(post(body, head), "/v1/chat/completions", path, 1))
		var m map[string]any
		if err := json.Unmarshal([]byte(b), &m); err != nil {
			t.Fatalf("%s: %q", path, b)
		}
		return resp.StatusCode, resp.Header, m
	}
	for _, tc := range []struct {
		head, path, body string
		status           int
		kind             string
	}{
		{"X-Api-Key: bad\r\n", "", `{}`, 401, "authentication_error"},
		{"X-Api-Key: good\r\n", "", `{"model":"denied"}`, 403, "permission_error"},
		{"X-Api-Key: good\r\n", "", `{"model":"limit"}`, 429, "rate_limit_error"},
		{"X-Api-Key: good\r\n", "", `{"model":"none"}`, 404, "not_found_error"},
		{"X-Api-Key: good\r\n", "", `{"model":`, 400, "invalid_request_error"},
		{"X-Api-Key: good\r\n", "", `{"model":"m"}`, 502, "api_error"},
		{"X-Api-Key: good\r\n", "/batches", `{}`, 404, "not_found_error"},
		{"X-Api-Key: good\r\n", "/count_tokens?x=1", `{"model":"none"}`, 404, "not_found_error"},
	} {
		status, head, m := ask("/v1/messages"+tc.path, tc.head, tc.body)
		e, _ := m["error"].(map[string]any)
		if status != tc.status || m["type"] != "error" || e["type"] != tc.kind || e["message"] == "" ||
			m["request_id"] != head.Get("Request-Id") || head.Get("Request-Id") == "" {
			t.Errorf("%s %s: %d %v", tc.path, tc.body, status, m)
		}
		if (status == 429) != (head.Get("Retry-After") != "") {
			t.Errorf("%d: retry-after %q", status, head.Get("Retry-After"))
		}
	}
	for _, path := range []string{"/v1/responses", "/v1/chat/completions", "/v1/messagesx"} {
		status, head, m := ask(path, "X-Api-Key: bad\r\n", `{}`)
		e, _ := m["error"].(map[string]any)
		if status/100 != 4 || m["type"] != nil || e["code"] == "" || head.Get("Request-Id") != "" {
			t.Errorf("%s: %d %v", path, status, m)
		}
	}
	resp, _ := do(t, x.addr, "GET /v1/messages HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp.StatusCode != 405 || resp.Header.Get("Allow") != "OPTIONS, POST" {
		t.Errorf("GET: %d, allow %q", resp.StatusCode, resp.Header.Get("Allow"))
	}
}

// dialsNowhere is an address that refuses connections.
func dialsNowhere(t *testing.T) string {
	ln := listen(t)
	defer ln.Close()
	return ln.Addr().String()
}

// TestAPIs_answerID: the router gets the id of a stored answer before the client.
func TestAPIs_answerID(t *testing.T) {
	const answer = `{"id":"resp_7","output":[],"usage":{"input_tokens":5,"output_tokens":1}}`
	addr := scripted(t, func() []string {
		return []string{fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(answer), answer)}
	})
	r := newRouter(addr)
	x := start(t, r)
	for i, body := range []string{`{"model":"m","input":"x"}`, `{"model":"m","input":"x","store":false}`,
		`{"model":"m","input":"x","store":true}`} {
		a := api{path: "/v1/responses", body: body}
		do(t, x.addr, a.post())
		if o := r.outcome(t); o.PromptTokens != 5 {
			t.Errorf("%+v", o)
		}
		want := [...]int{1, 1, 2}[i]
		r.set(func() {
			if len(r.answered) != want {
				t.Errorf("%s: answered as %q", body, r.answered)
			}
		})
	}
}

// TestAPIs_echo: a request that a response repeats, with what looks like usage in
// it, neither ends the stream nor counts.
func TestAPIs_echo(t *testing.T) {
	compute := make(chan struct{})
	first := responsesEvents[:strings.Index(responsesEvents, "\n\n")+2]
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, e *engine) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, first)
		w.(http.Flusher).Flush()
		<-compute
		panic(http.ErrAbortHandler)
	})
	r := newRouter(e.addr)
	x := start(t, r)
	c, br := dial(t, x.addr)
	io.WriteString(c, streamAPIs[0].post())
	readUntil(t, br, `"type":"response.created"}`)
	close(compute)
	readUntil(t, br, "event: error")
	if o := r.outcome(t); o.End != exchange.EndDied || o.HasUsage {
		t.Errorf("%+v", o)
	}
}

func TestLastSequence(t *testing.T) {
	for in, want := range map[string]int{
		responsesEvents:           5,
		`"sequence_number": 12,`:  12,
		`"sequence_number":1`:     3, // its end may follow
		`x`:                       3,
		`"sequence_number":null}`: 3,
		`"sequence_number":99999999999999999999,`: 3,
	} {
		if got := lastSequence([]byte(in), 3); got != want {
			t.Errorf("%q: got %d, want %d", in, got, want)
		}
	}
}

// FuzzStreamEnds: wherever a stream of Anthropic's API is cut into pieces, its end
// is seen at the same byte; the number of an event is one of its text.
func FuzzStreamEnds(f *testing.F) {
	f.Add(messagesEvents+messagesEnd, uint64(1))
	f.Add("data: {\"type\": \"message_stop\"}\r\n\r\n", uint64(2))
	f.Add(responsesEvents, uint64(3))
	f.Fuzz(func(t *testing.T, body string, seed uint64) {
		var whole, cut streamTail
		if body == "" {
			return
		}
		whole.add([]byte(body))
		for _, p := range randomSplit(body, seed) {
			cut.add(p)
		}
		messages, responses := streamFormats[llmapi.StreamMessages].ends, streamFormats[llmapi.StreamResponses].ends
		if whole.endsWith(messages) != cut.endsWith(messages) || whole.endsWith(responses) != cut.endsWith(responses) ||
			whole.ended() != cut.ended() {
			t.Fatalf("%q: %v and %v, cut %v and %v", body, whole.endsWith(messages),
				whole.ended(), cut.endsWith(messages), cut.ended())
		}
		if n := lastSequence([]byte(body), -1); n >= 0 && !strings.Contains(body, fmt.Sprint(n)) {
			t.Fatalf("%q: number %d", body, n)
		}
	})
}
