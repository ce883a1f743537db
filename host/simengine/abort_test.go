package simengine

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// slow is an engine whose steps take a millisecond.
func slow(c *Config) { c.Timing = &Timing{C0: 1, Budget: 8192} }

// long is a request that would take three seconds.
const long = `{"messages":[{"role":"user","content":"hello"}],"max_tokens":3000,"ignore_eos":true,"stream":true}`

const abortCounter = `vllm:request_success_total{engine="0",model_name="demo",finished_reason="abort"}`

// readUntil reads until the text has come.
func readUntil(t *testing.T, br *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatalf("%v before %q", err, text)
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

// has reports whether a request with this id came.
func (l *requestLog) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.records, func(r *record) bool { return r.ID == id })
}

// TestAbort_latency: a client that leaves, before or after the first byte, in a
// stream or not, ends its request at once.
func TestAbort_latency(t *testing.T) {
	r := run(t, slow)
	var mu sync.Mutex
	left := map[string]time.Time{}
	const clients, rounds = 2, 100
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range rounds {
				id := fmt.Sprintf("id-%d-%d", c, i)
				body := long
				if i%2 == 1 {
					body = strings.Replace(long, `"stream":true`, `"stream":false`, 1)
				}
				conn, err := net.Dial("tcp", r.addr)
				if err != nil {
					t.Error(err)
					return
				}
				req := strings.Replace(postBytes("/v1/chat/completions", body), "Host: x\r\n",
					"Host: x\r\nX-Request-Id: "+id+"\r\n", 1)
				if _, err := conn.Write([]byte(req)); err != nil {
					t.Error(err)
					return
				}
				if i%2 == 0 {
					readUntil(t, bufio.NewReader(conn), "finish_reason")
				} else {
					until(t, "received", func() bool { return r.log.has(id) })
				}
				mu.Lock()
				left[id] = time.Now()
				mu.Unlock()
				conn.Close()
			}
		})
	}
	wg.Wait()
	var recs []record
	until(t, "all requests ended", func() bool {
		recs = r.log.snapshot()
		return !slices.ContainsFunc(recs, func(rec record) bool { return rec.EndMS == nil })
	})
	if len(recs) != clients*rounds {
		t.Fatalf("%d records", len(recs))
	}
	var late []float64
	for _, rec := range recs {
		if !rec.Aborted {
			t.Fatalf("%s did not end as aborted", rec.ID)
		}
		late = append(late, *rec.EndMS-milliseconds(left[rec.ID]))
	}
	slices.Sort(late)
	t.Logf("from close to abort: median %.2f ms, p99 %.2f ms", late[len(late)/2], late[len(late)*99/100])
	// A tenth of this on a quiet machine; what is guarded against is waiting for
	// a step, a write or a timer.
	if p50 := late[len(late)/2]; p50 > 5 {
		t.Errorf("aborted after %.2f ms in the median", p50)
	}
	until(t, "engine idle", func() bool { return r.metric("vllm:num_requests_running") == 0 })
	if n := r.metric(abortCounter); n != clients*rounds {
		t.Errorf("%v aborts counted of %d", n, clients*rounds)
	}
	if n := r.metric("vllm:kv_cache_usage_perc"); n != 0 {
		t.Errorf("%v of the cache still in use", n)
	}
}

// TestStream_head: the head of a stream comes before its first token, late only
// by a fault.
func TestStream_head(t *testing.T) {
	r := run(t, func(c *Config) { slow(c); c.MaxSeqs = 1 })
	_, br := r.raw(postBytes("/v1/chat/completions", long))
	readUntil(t, br, "finish_reason")
	_, br = r.raw(postBytes("/v1/chat/completions", long)) // has to wait
	readUntil(t, br, "transfer-encoding")
	if recs := r.log.snapshot(); recs[1].FirstByteMS != nil {
		t.Fatal("the head counts as first byte")
	}
	r.faultsSet(`{"late_head":true}`)
	late, br := r.raw(postBytes("/v1/chat/completions", long))
	until(t, "it waits", func() bool { return r.metric("vllm:num_requests_waiting") == 2 })
	late.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if b, err := br.ReadByte(); err == nil {
		t.Fatalf("%q before the first token", b)
	}
}

// TestAbort_halfClose: closing only the sending half is leaving, too.
func TestAbort_halfClose(t *testing.T) {
	r := run(t, slow)
	conn, br := r.raw(postBytes("/v1/chat/completions", long))
	readUntil(t, br, "finish_reason")
	conn.(*net.TCPConn).CloseWrite()
	until(t, "abort counted", func() bool { return r.metric(abortCounter) == 1 })
}

// TestAbort_waiting: a request that still waits for its turn can leave.
func TestAbort_waiting(t *testing.T) {
	r := run(t, func(c *Config) { slow(c); c.MaxSeqs = 1 })
	_, br := r.raw(postBytes("/v1/chat/completions", long))
	readUntil(t, br, "finish_reason")
	second, _ := r.raw(postBytes("/v1/chat/completions", long))
	until(t, "second waits", func() bool { return r.metric("vllm:num_requests_waiting") == 1 })
	second.Close()
	until(t, "second left", func() bool { return r.metric("vllm:num_requests_waiting") == 0 })
	if r.metric(abortCounter) != 1 || r.metric("vllm:num_requests_running") != 1 {
		t.Fatal("the running one was hit")
	}
}

// TestStreams_thousand runs 1,000 streams at once.
func TestStreams_thousand(t *testing.T) {
	r := run(t, func(c *Config) { c.Timing = &Timing{C0: 4, Budget: 8192}; c.MaxSeqs = 1000 })
	body := strings.Replace(long, "3000", "40", 1)
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			b := strings.Replace(body, "hello", fmt.Sprint("hello ", i), 1)
			if _, err := conn.Write([]byte(postBytes("/v1/chat/completions", b))); err != nil {
				t.Error(err)
				return
			}
			readUntil(t, bufio.NewReader(conn), "[DONE]")
		})
	}
	wg.Wait()
	if n := r.metric(`vllm:request_success_total{engine="0",model_name="demo",finished_reason="length"}`); n != 1000 {
		t.Fatalf("%v finished", n)
	}
}
