package fleet

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// The lists below hold what no client may send to an engine. They are independent of
// the router's own lists: their sources are the engines' request types and the
// documentation of gateways.

// deniedFields control an engine's cache, its scheduling or another engine, or select a
// model or prompt other than the ones that the router decided on.
var deniedFields = []string{
	"cache_salt", "extra_key", "cache_prompt", "id_slot", "slot_id", "n_cache_reuse", "n_keep", "keep_alive",
	"return_cached_tokens_details",
	"priority", "routed_dp_rank", "data_parallel_rank", "request_id", "rid", "session_id", "session_params",
	"conversation_params",
	"kv_transfer_params", "ec_transfer_params", "disaggregated_params", "bootstrap_host", "bootstrap_port",
	"bootstrap_room",
	"disagg_prefill_dp_rank", "nvext", "extra_body", "vllm_xargs",
	"lora", "lora_path", "lora_request", "chat_template", "prompt_token_ids", "input_ids", "logits_processors",
	"custom_logit_processor",
}

// containers are objects that are denied as a whole, with all fields that engines and
// gateways read in them.
var containers = []string{"nvext", "extra_body", "vllm_xargs", "kv_transfer_params", "ec_transfer_params",
	"disaggregated_params"}

// deniedHeaders are names of denied header fields.
var deniedHeaders = []string{
	"X-Tenant-Id", "X-Cache-Salt", "X-Gateway-Destination-Endpoint", "X-Gateway-Model-Name", "X-Kvasir-Session",
	"X-Kvasir-Priority", "X-Kvasir-Anything",
	"X-Data-Parallel-Rank", "X-Data-Parallel-Host-Port", "X-Vllm-Priority", "X-Session-Id", "Endpoint-Load-Metrics-Format",
	"X-Prefiller-Host-Port", "X-Encoder-Hosts",
	"X-Smg-Routing-Key", "X-Worker-Id", "X-Dynamo-Worker", "Cookie", "Cookie2", "Api-Key", "X-Goog-Api-Key",
	"X-Auth-Token", "Ocp-Apim-Subscription-Key",
	"Proxy-Authorization", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Http2-Settings", "Forwarded",
	"Via", "X-Forwarded-For", "X-Forwarded-Host",
	"X-Real-Ip", "X-Envoy-Original-Path",
}

// Every denied value contains secret or secretNumber, in all forms; neither may reach an engine.
const (
	secret       = "STRIPME"
	secretNumber = "86753098675309"
)

var deniedValues = []string{`"STRIPME"`, secretNumber, `{"cache_salt":"STRIPME","a":[1,"}]\"STRIPME"]}`,
	`["STRIPME",{"rid":"STRIPME"}]`, `null`}

// stripOp is one operation with the members of a body.
type stripOp struct {
	path    string
	members []string
	salted  bool // the router adds the tenant's cache salt
	usage   bool // the router makes streams report usage
}

var stripOps = []stripOp{
	{"/v1/chat/completions",
		[]string{`"model":"m"`, `"messages":[{"role":"user","content":"hi","cache_salt":"KEEP"}]`,
			`"metadata":{"priority":"KEEP"}`}, true, true},
	{"/v1/completions", []string{`"model":"m"`, `"prompt":"hi {\"cache_salt\":1}"`, `"temperature":0.5`}, true, true},
	{"/v1/responses",
		[]string{`"model":"m"`, `"input":[{"role":"user","content":"hi"}]`, `"metadata":{"cache_salt":"KEEP"}`}, true, false},
	{"/v1/messages",
		[]string{`"model":"m"`, `"messages":[{"role":"user","content":"hi"}]`, `"max_tokens":9`,
			`"metadata":{"user_id":"KEEP"}`}, true, false},
	{"/v1/messages/count_tokens",
		[]string{`"model":"m"`, `"messages":[{"role":"user","content":"hi"}]`,
			`"tools":[{"name":"f","input_schema":{"properties":{"rid":{}}}}]`}, false, false},
	{"/tokenize", []string{`"model":"m"`, `"prompt":"hi"`, `"return_token_strs":true`}, false, false},
}

// stripCase is one request and its expected result.
type stripCase struct {
	op      *stripOp
	body    string
	headers []string
	want    string // the engine's body; "" = it may also be refused, and must not arrive with the secret
	auth    bool   // the headers hold the credentials
}

// spellings returns the spellings of a key: plain, first and last letter escaped, all escaped.
func spellings(name string) []string {
	var all strings.Builder
	for _, c := range []byte(name) {
		fmt.Fprintf(&all, `\u%04x`, c)
	}
	n := len(name) - 1
	return []string{name, fmt.Sprintf(`\u%04X%s\u%04x`, name[0], name[1:n], name[n]), all.String()}
}

// withMember returns members with one more at index i.
func withMember(members []string, i int, m ...string) string {
	return "{" + strings.Join(slices.Insert(slices.Clone(members), i, m...), ",") + "}"
}

// expected returns the body that the engine receives for an operation's own members.
func (op *stripOp) expected(salt string, stream bool) string {
	members := slices.Clone(op.members)
	if stream {
		members = append(members, `"stream":true`)
	}
	if op.salted {
		members = append(members, `"cache_salt":"`+salt+`"`)
	}
	if stream && op.usage {
		members = append(members, `"stream_options":{"include_usage":true}`)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// fieldCases returns the matrix of body fields of one operation.
func fieldCases(op *stripOp, salt string) (cases []stripCase) {
	add := func(body, want string) { cases = append(cases, stripCase{op: op, body: body, want: want}) }
	plain, ends := op.expected(salt, false), len(op.members)
	for _, name := range deniedFields {
		ours := name == "cache_salt" && op.salted // stays, with the value replaced
		for s, key := range spellings(name) {
			for v, value := range deniedValues {
				for _, at := range []int{0, 1, ends} {
					if v > 0 && s > 0 && at == 1 {
						continue
					}
					want := plain
					if ours {
						want = withMember(op.members, at, `"`+key+`":"`+salt+`"`)
					}
					add(withMember(op.members, at, `"`+key+`":`+value), want)
				}
			}
			for t, twin := range spellings(name) { // the field twice, in any two spellings
				if t >= s {
					add(withMember(op.members, 0, `"`+key+`":"STRIPME"`, `"`+twin+`":"STRIPME2"`), "")
					add(withMember(op.members, ends, `"x":1`, `"`+key+`":null`, `"y":1`, `"`+twin+`":"STRIPME"`), "")
				}
			}
		}
		add(withMember(op.members, 0, `"`+strings.ToUpper(name)+`":"STRIPME"`), "")
		add(withMember(op.members, 0, `"`+strings.ToUpper(name[:1])+name[1:]+`":"STRIPME"`), "")
		if i := strings.IndexByte(name, 's'); i >= 0 { // a letter that case-folds to s
			add(withMember(op.members, 0, `"`+name[:i]+"ſ"+name[i+1:]+`":"STRIPME"`), "")
		}
		for _, c := range containers {
			for _, key := range spellings(name) {
				add(withMember(op.members, 1, `"`+c+`":{"x":1,"`+key+`":"STRIPME","deep":[{"`+key+`":`+secretNumber+`}]}`), plain)
			}
		}
	}
	for _, inner := range []string{"chat_template", "tokenize"} {
		for _, key := range spellings(inner) {
			for kwargs, kept := range map[string]string{`{"%s":"STRIPME"}`: `{}`, `{"a":1,"%s":"STRIPME"}`: `{"a":1}`,
				`{"%s":"STRIPME","a":1,"b":{}}`: `{"a":1,"b":{}}`} {
				want := strings.Replace(plain, op.members[1], op.members[1]+`,"chat_template_kwargs":`+kept, 1)
				if op.path == "/v1/completions" {
					continue // the operation has no chat template
				}
				add(withMember(op.members, 2, `"chat_template_kwargs":`+fmt.Sprintf(kwargs, key)), want)
			}
		}
	}
	stream := withMember(op.members, ends, `"stream":true`)
	add(stream, op.expected(salt, true))
	return cases
}

// headerCases returns the matrix of header fields of one operation.
func headerCases(op *stripOp, salt string) (cases []stripCase) {
	body, want := "{"+strings.Join(op.members, ",")+"}", op.expected(salt, false)
	for _, name := range deniedHeaders {
		line := name + ": STRIPME"
		for _, lines := range [][]string{
			{line}, {strings.ToUpper(name) + ": STRIPME"}, {strings.ToLower(name) + ":STRIPME"},
			{strings.ReplaceAll(name, "-", "_") + ": STRIPME"},
			{line, line + "2"}, {"X-Custom: a", line, "X-Other: b"},
		} {
			one := stripCase{op: op, body: body, headers: lines, want: want}
			if strings.HasPrefix(name, "X-Kvasir-") && len(lines) == 2 {
				one.want = "" // a hint that the router reads, twice
			}
			cases = append(cases, one)
		}
	}
	for _, hop := range []string{"X-Hop", "X-Custom", "Accept", "Traceparent"} {
		cases = append(cases,
			stripCase{op: op, body: body, headers: []string{"Connection: keep-alive, " + hop, hop + ": STRIPME"}, want: want})
	}
	for _, lines := range [][]string{{"Authorization: Bearer STRIPME"}, {"X-Api-Key: STRIPME"},
		{"X-Api-Key: STRIPME", "X-Api-Key: STRIPME"}} {
		cases = append(cases, stripCase{op: op, body: body, headers: lines, auth: true})
	}
	return cases
}

// passHeaders are the names, in lower case, of the header fields that reach the recorder.
var passHeaders = map[string]bool{"host": true, "x-request-id": true, "accept-encoding": true, "content-type": true,
	"content-length": true, "x-custom": true, "x-other": true}

// stripper sends cases over its own connections.
type stripper struct {
	router *harness.Router
	engine *recorder
	key    string
	salt   string
	sent   atomic.Int64
}

// TestStrip sends every denied field and header, in every spelling and position, with
// every operation. The engine's raw capture contains neither the denied value nor the
// client's key. The body that arrives equals the client's bytes except for the declared
// edits.
func TestStrip(t *testing.T) {
	t.Parallel()
	e := startRecorder(t)
	keys, state := t.TempDir()+"/keys.json", t.TempDir()
	x := &stripper{engine: e, key: harness.IssueKey(t, keys, state, "acme")}
	x.router = harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "`+state+`"
identity: {api_keys_file: `+keys+`}
pools: [{name: main, endpoints: ["`+e.URL+`"], events: {mode: "off"}}]
models: [{name: m, pools: [main]}]
`)
	begin := time.Now()
	x.salt = x.findSalt(t)
	var cases []stripCase
	for i := range stripOps {
		cases = append(cases, fieldCases(&stripOps[i], x.salt)...)
		cases = append(cases, headerCases(&stripOps[i], x.salt)...)
	}
	next := make(chan *stripCase)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { x.work(t, next) })
	}
	for i := range cases {
		next <- &cases[i]
	}
	close(next)
	wg.Wait()
	t.Logf("%d requests in %v", x.sent.Load(), time.Since(begin).Round(time.Millisecond))
	if n := x.sent.Load(); n < 5000 || n != int64(len(cases)) {
		t.Errorf("%d of %d cases were sent", n, len(cases))
	}
}

var saltMember = regexp.MustCompile(`,"cache_salt":"([A-Za-z0-9_-]{43})"\}$`)

// findSalt returns the tenant's salt, from a request that does not contain one.
func (x *stripper) findSalt(t *testing.T) string {
	t.Helper()
	op := &stripOps[0]
	a, err := harness.Post(x.router.URL+op.path, x.key, "{"+strings.Join(op.members, ",")+"}", "X-Request-Id", "first")
	if err != nil || a.Status != 200 {
		t.Fatalf("%v %+v", err, a)
	}
	m := saltMember.FindSubmatch(x.engine.take("first"))
	if m == nil {
		t.Fatal("no salt was injected")
	}
	return string(m[1])
}

func (x *stripper) work(t *testing.T, cases <-chan *stripCase) {
	addr := strings.TrimPrefix(x.router.URL, "http://")
	var c net.Conn
	var br *bufio.Reader
	for tc := range cases {
		if c == nil {
			var err error
			if c, err = net.Dial("tcp", addr); err != nil {
				t.Error(err)
				continue
			}
			c.SetDeadline(time.Now().Add(time.Minute))
			br = bufio.NewReader(c)
		}
		id := fmt.Sprint("case-", x.sent.Add(1))
		again, err := x.one(t, c, br, id, tc)
		if err != nil {
			t.Errorf("%s %v %.300s: %v", tc.op.path, tc.headers, tc.body, err)
		}
		if err != nil || !again {
			c.Close()
			c = nil
		}
	}
	if c != nil {
		c.Close()
	}
}

// one sends a case and checks the result; again reports whether the connection can be
// used again.
func (x *stripper) one(t *testing.T, c net.Conn, br *bufio.Reader, id string, tc *stripCase) (again bool, err error) {
	auth := "Authorization: Bearer " + x.key
	if len(tc.body)%2 == 1 {
		auth = "X-Api-Key: " + x.key // as Anthropic's clients send it
	}
	if tc.auth {
		auth = "X-Custom: x"
	}
	head := append([]string{"POST " + tc.op.path + " HTTP/1.1", "Host: x", "Content-Type: application/json",
		"X-Request-Id: " + id, auth,
		fmt.Sprintf("Content-Length: %d", len(tc.body))}, tc.headers...)
	if _, err := io.WriteString(c, strings.Join(head, "\r\n")+"\r\n\r\n"+tc.body); err != nil {
		return false, err
	}
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		return false, err
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return false, err
	}
	raw := string(x.engine.take(id))
	again = !res.Close
	if res.StatusCode != 200 {
		if tc.want != "" || raw != "" || res.StatusCode >= 500 {
			return again, fmt.Errorf("status %d: %s", res.StatusCode, answer)
		}
		if strings.Contains(string(answer), secret) {
			return again, fmt.Errorf("the answer contains the value: %s", answer)
		}
		return again, nil
	}
	return again, x.capture(raw, tc)
}

// capture checks the request that the engine received.
func (x *stripper) capture(raw string, tc *stripCase) error {
	head, body, _ := strings.Cut(raw, "\r\n\r\n")
	switch {
	case strings.Contains(raw, secret), strings.Contains(raw, secretNumber):
		return fmt.Errorf("the engine received %s", raw)
	case strings.Contains(raw, x.key):
		return fmt.Errorf("the engine received the client's key: %s", head)
	case tc.want != "" && body != tc.want:
		return fmt.Errorf("got  %s\nwant %s", body, tc.want)
	}
	lines := strings.Split(head, "\r\n")
	if lines[0] != "POST "+tc.op.path+" HTTP/1.1" {
		return fmt.Errorf("request line %q", lines[0])
	}
	for _, l := range lines[1:] {
		name, _, _ := strings.Cut(l, ":")
		if low := strings.ToLower(name); !passHeaders[low] {
			return fmt.Errorf("the engine received the header %q", l)
		}
	}
	return nil
}
