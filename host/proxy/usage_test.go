package proxy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/testdeps"
)

// oracleUsage is the last usage object of events or of a JSON body, by
// encoding/json.
func oracleUsage(body string) (prompt, out, cached int, has bool) {
	for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(body), "\n") {
		line = strings.TrimPrefix(line, "data:")
		var v struct {
			Usage *struct {
				PromptTokens     int `json:"prompt_tokens"`
				CompletionTokens int `json:"completion_tokens"`
				Details          *struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if json.Unmarshal([]byte(line), &v) == nil && v.Usage != nil {
			prompt, out, cached, has = v.Usage.PromptTokens, v.Usage.CompletionTokens, 0, true
			if v.Usage.Details != nil {
				cached = v.Usage.Details.Cached
			}
		}
	}
	return
}

var usageBodies = []string{
	vllmEvents + vllmUsage + doneEvent,
	strings.ReplaceAll(vllmEvents+vllmUsage+doneEvent, "\n", "\r\n"),
	strings.ReplaceAll(vllmEvents+vllmUsage+doneEvent, "\n", "\r"),
	vllmEvents + doneEvent,
	": ping\n\n" + vllmUsage,
	`data: {"choices":[{"delta":{}}],"usage":null}` + "\n\n" +
		`data: {"choices" : [ ] , "usage" : { "prompt_tokens" : 3 , "completion_tokens":4, "prompt_tokens_details":null } }` +
		"\n\n",
	`data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\n" +
		`data: {"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}` +
		"\n\n", // continuous
	`{"id":"x","choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}"}}],"usage":{"prompt_tokens":5,` +
		`"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":0}}}`,
	`{"choices":[],"word":"usage","usage":{"prompt_tokens":5,"note":"} \" {","completion_tokens":6}}`,
	`{"usage":"none"}`, `{"""usage":1}`,
}

func scanAll(pieces [][]byte) *usageScanner {
	var u usageScanner
	for _, p := range pieces {
		u.feed(p)
	}
	return &u
}

func checkUsage(t *testing.T, body string, u *usageScanner) {
	t.Helper()
	p, o, c, has := oracleUsage(body)
	if u.found != has || u.usage.PromptTokens != p || u.usage.CompletionTokens != o || u.usage.CachedTokens != c {
		t.Fatalf("got %v %+v, want %v %d %d %d in %q", u.found, u.usage, has, p, o, c, body)
	}
}

// split cuts b at the given places.
func split(b string, at ...int) (pieces [][]byte) {
	from := 0
	for _, i := range at {
		pieces = append(pieces, []byte(b[from:i]))
		from = i
	}
	return append(pieces, []byte(b[from:]))
}

func TestUsageScanner_allSplits(t *testing.T) {
	testdeps.Sequential(t)
	for _, body := range usageBodies {
		for i := 0; i <= len(body); i++ {
			checkUsage(t, body, scanAll(split(body, i)))
			for j := i; j <= min(i+12, len(body)); j++ {
				checkUsage(t, body, scanAll(split(body, i, j)))
			}
		}
		var single [][]byte
		for i := range len(body) {
			single = append(single, []byte{body[i]})
		}
		checkUsage(t, body, scanAll(single))
	}
}

// oracleFilter takes the usage events out of a whole stream, by encoding/json.
func oracleFilter(body string) string {
	var out strings.Builder
	for len(body) > 0 {
		n := eventLen(body)
		event := body[:n]
		body = body[n:]
		data, ok := strings.CutPrefix(strings.TrimRight(event, "\r\n"), "data:")
		var v struct {
			Choices []json.RawMessage
			Usage   map[string]any
		}
		if ok && json.Unmarshal([]byte(data), &v) == nil && v.Usage != nil && v.Choices != nil && len(v.Choices) == 0 {
			continue
		}
		out.WriteString(event)
	}
	return out.String()
}

// eventLen is the length of the first event with its empty line.
func eventLen(s string) int {
	for i := 0; ; {
		j := strings.IndexAny(s[i:], "\r\n")
		if j < 0 {
			return len(s)
		}
		empty := j == 0
		i += j + 1
		if s[i-1] == '\r' && i < len(s) && s[i] == '\n' {
			i++
		}
		if empty {
			return i
		}
	}
}

func filterAll(pieces [][]byte) (out string, f *usageFilter) {
	f = new(usageFilter)
	var u usageScanner
	for _, p := range pieces {
		before, rest := f.filter(p, u.feed(p))
		out += string(before) + string(rest)
	}
	return out + string(f.finish()), f
}

var filterBodies = append([]string{
	"data: {\"choices\":[]}\n\n" + vllmUsage + doneEvent,
	"data: {\"choices\":[],\"usage\":null}\n\n" + doneEvent,
	vllmUsage + vllmUsage + "data: x\n\n" + vllmUsage,
	"data:{\"usage\":{\"prompt_tokens\":1},\"choices\":[]}\n\n" + doneEvent,
	"data: {\"model\":\"choices\",\"choices\":[],\"usage\":{}}\n\n" + doneEvent,
	"event: x\ndata: {\"choices\":[],\"usage\":{}}\n\n",
	"\n\n\n" + vllmUsage + "\n" + doneEvent,
	"data: {\"choices\":[],\"usage\":{\"a\":\"" + strings.Repeat("x", maxHeld) + "\"}}\n\n" + doneEvent,
	"data: unfinished",
}, usageBodies...)

func TestUsageFilter_allSplits(t *testing.T) {
	testdeps.Sequential(t)
	for _, body := range filterBodies {
		want := oracleFilter(body)
		long := len(body) > 2*maxHeld
		check := func(at ...int) {
			t.Helper()
			if got, _ := filterAll(split(body, at...)); got != want && !(len(body) > maxHeld && got == body) {
				t.Fatalf("split at %v\ngot  %q\nwant %q", at, got, want)
			}
		}
		check()
		step := 1
		if len(body) > maxHeld {
			step = 97
		}
		for i := 0; i <= len(body); i += step {
			check(i)
			for j := i; j <= len(body) && !long; j += 7 * step {
				check(i, j)
			}
		}
		var single []int
		for i := range len(body) {
			single = append(single, i)
		}
		check(single...)
	}
}

// No byte of any other event waits for the end of its event once it is known not
// to be the usage event.
func TestUsageFilter_delaysNothingElse(t *testing.T) {
	var f usageFilter
	var u usageScanner
	var got []byte
	in := vllmEvents + doneEvent
	held := 0
	for i := range len(in) {
		p := []byte{in[i]}
		before, out := f.filter(p, u.feed(p))
		got = append(append(got, before...), out...)
		held = max(held, i+1-len(got))
		begun := max(0, strings.LastIndex(in[:i+1], "\n\ndata:"))
		if event := in[begun : i+1]; !strings.Contains(event[min(2, len(event)):], "\n\n") &&
			strings.Contains(event, `"choices":[{`) && len(got) != i+1 {
			t.Fatalf("%d bytes held after %q", i+1-len(got), event)
		}
	}
	if string(got) != in || held > 100 {
		t.Errorf("at most %d bytes held; %q", held, got)
	}
	if before, out := f.filter([]byte(vllmUsage[:60]), false); len(before)+len(out) > 0 {
		t.Errorf("passed %q%q of the usage event", before, out)
	}
}

func TestUsage_asked(t *testing.T) {
	body := vllmEvents + vllmUsage + doneEvent
	wire := sseHead + "Transfer-Encoding: chunked\r\n\r\n" + chunked(body) + "0\r\n\r\n"
	r := newRouter(scripted(t, func() []string { return []string{wire} }))
	r.targets[0].Rewrite.ForceUsage = true
	x := start(t, r)
	for asked, want := range map[bool]string{true: body, false: vllmEvents + doneEvent} {
		in := streamBody
		if asked {
			in = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`
		}
		if _, got := do(t, x.addr, post(in)); got != want {
			t.Errorf("asked=%v: got %q", asked, got)
		}
		if o := r.outcome(t); !o.HasUsage || o.CachedTokens != 96 {
			t.Errorf("%+v", o)
		}
	}
	// An answer that is no stream reports usage too.
	answer := usageBodies[7]
	addr := scripted(t, func() []string {
		return []string{fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
			len(answer)), answer}
	})
	r.set(func() { r.targets = []exchange.Target{{Rewrite: llmapi.Rewrite{ForceUsage: true}, Addr: addr}} })
	if _, got := do(t, x.addr, post(plainBody)); got != answer {
		t.Errorf("got %q", got)
	}
	if o := r.outcome(t); !o.HasUsage || !o.HasCached || o.CachedTokens != 0 || o.PromptTokens != 5 {
		t.Errorf("%+v", o)
	}
}

func FuzzUsageScanner(f *testing.F) {
	for _, b := range append([]string{messagesEvents + messagesEnd, responsesEvents + responsesEnd}, usageBodies...) {
		f.Add(b, uint64(1))
	}
	f.Fuzz(func(t *testing.T, body string, seed uint64) {
		whole := scanAll([][]byte{[]byte(body)})
		cut := scanAll(randomSplit(body, seed))
		if whole.found != cut.found || whole.usage != cut.usage {
			t.Fatalf("whole %v %+v, cut %v %+v", whole.found, whole.usage, cut.found, cut.usage)
		}
	})
}

func FuzzUsageFilter(f *testing.F) {
	for _, b := range filterBodies {
		f.Add(b, uint64(1))
	}
	f.Fuzz(func(t *testing.T, body string, seed uint64) {
		if len(body) > maxHeld {
			return // where it gives up depends on the cut
		}
		whole, _ := filterAll([][]byte{[]byte(body)})
		cut, _ := filterAll(randomSplit(body, seed))
		if whole != cut {
			t.Fatalf("whole %q\ncut   %q", whole, cut)
		}
		if len(whole) > len(body) || !subsequence(whole, body) {
			t.Fatalf("%q became %q", body, whole)
		}
	})
}

func subsequence(s, of string) bool {
	for i := range len(of) {
		if len(s) > 0 && s[0] == of[i] {
			s = s[1:]
		}
	}
	return s == ""
}

func randomSplit(body string, seed uint64) (pieces [][]byte) {
	r := rand.New(rand.NewPCG(seed, 1))
	for len(body) > 0 {
		n := 1 + r.IntN(min(len(body), 1+r.IntN(40)))
		pieces = append(pieces, []byte(body[:n]))
		body = body[n:]
	}
	return pieces
}

func TestStreamTail(t *testing.T) {
	for _, tc := range []struct {
		in   string
		done bool
	}{
		{"data: x\n\ndata: [DONE]\n\n", true}, {"data: [DONE]\n\n", true}, {"data:[DONE]\r\n\r\n", true},
		{"data: x\r\rdata: [DONE]\r\r", true},
		{"data: [DONE]", false}, {"data: {\"a\":\"data: [DONE]\n\n", false}, {"xdata: [DONE]\n\n", false},
		{"data: [DONE]\n\ndata: x\n\n", false},
		{"data: []\n\n", false}, {"]\n\n", false},
	} {
		for i := 1; i < len(tc.in); i++ {
			var t1 streamTail
			t1.add([]byte(tc.in[:i]))
			if got := t1.add([]byte(tc.in[i:])); got != tc.done &&
				!(tc.done && strings.TrimRight(tc.in[i:], "\r\n") == "" && got) {
				t.Errorf("%q cut at %d: %v", tc.in, i, got)
			}
		}
	}
}

func BenchmarkUsageScanner(b *testing.B) {
	for name, event := range map[string]string{"event": vllmEvents[:strings.Index(vllmEvents, "\n\n")+2],
		"null":  `data: {"id":"c-1","choices":[{"index":0,"delta":{"content":"x"}}],"usage":null}` + "\n\n",
		"usage": vllmUsage} {
		b.Run(name, func(b *testing.B) {
			p := []byte(event)
			var u usageScanner
			var f usageFilter
			var t streamTail
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				t.add(p)
				f.filter(p, u.feed(p))
			}
		})
	}
}
