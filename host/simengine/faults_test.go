package simengine

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestFault_hang(t *testing.T) {
	r := run(t, nil)
	r.faultsSet(`{"hang":1}`)
	conn, _ := r.raw(postBytes("/v1/chat/completions", hello))
	until(t, "hung", func() bool { return r.metric("vllm:num_requests_running") == 1 })
	if r.log.snapshot()[0].FirstByteMS != nil {
		t.Fatal("it has answered")
	}
	conn.Close()
	until(t, "gone", func() bool { return r.metric("vllm:num_requests_running") == 0 })
	if r.metric(abortCounter) != 1 {
		t.Fatal("no abort counted")
	}
	until(t, "recorded", func() bool { return r.log.snapshot()[0].Aborted })
	r.mustPost("/v1/chat/completions", hello)
}

func TestFault_reject(t *testing.T) {
	r := run(t, func(c *Config) { c.Faults = Faults{Reject: 2, RejectStatus: 503} })
	for range 2 {
		if status, out := r.post("/v1/chat/completions", hello); status != 503 || !strings.Contains(out, `"code":503`) {
			t.Fatalf("%d %s", status, out)
		}
	}
	r.mustPost("/v1/chat/completions", hello)
	r.faultsSet(`{"reject":-1,"reject_status":429}`)
	for range 3 {
		if status, _ := r.post("/v1/chat/completions", hello); status != 429 {
			t.Fatal(status)
		}
	}
	r.faultsSet(`{"reject":0}`)
	r.mustPost("/v1/chat/completions", hello)
}

func TestFault_die(t *testing.T) {
	r := run(t, nil)
	f := func(body string, after, wantEvents int) {
		t.Helper()
		r.faultsSet(`{"die":1,"die_after_events":` + string(mustJSON(after)) + `}`)
		_, br := r.raw(postBytes("/v1/chat/completions", body))
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if err == nil {
			t.Fatalf("the answer ended well: %s", got)
		}
		if n := strings.Count(string(got), "data: "); n != wantEvents || strings.Contains(string(got), "[DONE]") {
			t.Fatalf("%d events, want %d: %s", n, wantEvents, got)
		}
	}
	stream := with(hello, `"stream":true`)
	f(stream, 0, 0)
	f(stream, 3, 3)
	f(stream, 13, 13)
	f(with(stream, `"stream_options":{"include_usage":true}`), 14, 14)
	f(hello, 0, 0)
	r.mustPost("/v1/chat/completions", hello)
	for _, rec := range r.log.snapshot()[:5] {
		if !rec.Aborted {
			t.Fatal("not recorded as cut off")
		}
	}
}

func TestFault_noCachedTokens(t *testing.T) {
	r := run(t, nil)
	r.faultsSet(`{"no_cached_tokens":true}`)
	if c := r.mustPost("/v1/chat/completions", hello); c.Usage.Details != nil {
		t.Fatalf("%+v", c.Usage.Details)
	}
}

func TestFault_restart(t *testing.T) {
	r := run(t, slow)
	r.mustPost("/v1/chat/completions", hello)
	start := r.metric("process_start_time_seconds")
	sub := r.subscribe("")
	until(t, "subscribed", func() bool { return r.Engine.pub.subscribers() == 1 })
	conn, br := r.raw(postBytes("/v1/chat/completions", long))
	readUntil(t, br, "finish_reason")
	if status, _ := r.post("/sim/restart?down_ms=50", ""); status != 200 {
		t.Fatal(status)
	}
	if b, err := io.ReadAll(br); err == nil && strings.Contains(string(b), "[DONE]") {
		t.Fatal("the stream survived")
	}
	conn.Close()
	for {
		if _, _, err := readFrame(sub.br); err != nil {
			break // the subscription ended with the process
		}
	}
	if c, err := net.Dial("tcp", r.addr); err == nil {
		c.SetDeadline(time.Now().Add(time.Second))
		c.Write([]byte("GET /health HTTP/1.1\r\n\r\n"))
		if n, _ := c.Read(make([]byte, 1)); n > 0 && r.down() {
			t.Fatal("answers while it is down")
		}
		c.Close()
	}
	until(t, "up again", func() bool { return !r.down() })
	if again := r.metric("process_start_time_seconds"); again <= start {
		t.Fatalf("started %v, before %v", again, start)
	}
	if r.metric("vllm:num_requests_running") != 0 || r.metric(abortCounter) != 0 ||
		r.metric("vllm:prompt_tokens_total") != 0 {
		t.Fatal("counters survived")
	}
	if c := r.mustPost("/v1/chat/completions", hello); c.Usage.Details.CachedTokens != 0 {
		t.Fatal("the cache survived")
	}
	if got := r.replayFrom(0); len(got) == 0 || got[0].seq != 0 {
		t.Fatalf("events after the restart: %+v", got)
	}
}

func TestFaults_refused(t *testing.T) {
	r := run(t, nil)
	for _, body := range []string{`{"hangs":1}`, `{"hang":-2}`, `{"drop_share":1.5}`, `{"reject":1,"reject_status":200}`,
		`{"hang":1}{}`, `x`} {
		if status, out := r.post("/sim/faults", body); status != 400 {
			t.Errorf("%s: %d %s", body, status, out)
		}
	}
	if _, out := r.do("GET", "/sim/faults", ""); !strings.Contains(out, `"hang":0`) {
		t.Errorf("a refused change took effect: %s", out)
	}
	toy := newToy()
	for _, c := range []Config{{}, {Prompter: toy}, {Prompter: toy, Vocabulary: toy, Preset: "gpu"},
		{Prompter: toy, Vocabulary: toy, Speed: -1}, {Prompter: toy, Vocabulary: toy, CacheBlocks: 10, MaxModelLen: 1000},
		{Prompter: toy, Vocabulary: toy, BlockTokens: -1}, {Prompter: toy, Vocabulary: toy, Faults: Faults{Die: -2}}} {
		if _, err := New(c); err == nil {
			t.Errorf("New(%+v) is content", c)
		}
	}
}
