//go:build bench

package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fakeEngine answers chat requests without computing anything, so that the benchmark
// measures the router. It answers a request whose body contains the mark "n=N" with a
// stream of N events, one every 5 ms, and one whose first content begins with "hold "
// with a stream of one event that stays open. The usage that it reports is that of an
// engine with a prefix cache: bodies carry the figures (see counted), and a prompt is
// cached from the second request on that begins with the same bytes.
type fakeEngine struct {
	net.Listener
	requests atomic.Int64
	seen     sync.Map // beginning of a body -> struct{}
}

func startFakeEngine(t testing.TB) *fakeEngine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &fakeEngine{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go e.serve(c)
		}
	}()
	return e
}

const plain = `{"id":"c","object":"chat.completion","model":"m","choices":[` +
	`{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`

var models = []byte(`{"object":"list","data":[{"id":"m","object":"model","max_model_len":1000000}]}`)

func (e *fakeEngine) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 64<<10)
	var body []byte
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		n := int(req.ContentLength)
		if cap(body) < n {
			body = make([]byte, n)
		}
		body = body[:max(n, 0)]
		if _, err := io.ReadFull(req.Body, body); err != nil {
			return
		}
		switch {
		case req.Method == "GET":
			answer(c, models)
		default:
			e.requests.Add(1)
			if bytes.Contains(body[:min(len(body), 200)], []byte(`"content":"hold `)) {
				holdStream(c)
				return
			}
			if at := bytes.LastIndex(body, []byte("n=")); at >= 0 {
				digits := string(body[at+2:])
				digits = digits[:strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })]
				k, _ := strconv.Atoi(digits)
				stream(c, k)
			} else {
				answer(c, e.complete(body))
			}
		}
	}
}

// complete returns the answer to a request that is not streamed.
func (e *fakeEngine) complete(body []byte) []byte {
	var tokens, cached int
	if at := bytes.LastIndex(body, []byte(countsKey)); at >= 0 {
		if _, err := fmt.Fscanf(bytes.NewReader(body[at+len(countsKey):]), "[%d,%d]", &tokens, &cached); err != nil {
			return fmt.Appendf(nil, `{"error":{"message":"counts: %v"}}`, err)
		}
	}
	if _, again := e.seen.LoadOrStore(string(body[:min(len(body), 512)]), struct{}{}); !again {
		cached = 0
	}
	return fmt.Appendf(nil, plain, tokens, tokens+1, cached)
}

func answer(c net.Conn, body []byte) {
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// event is one event of a stream, with the size of vLLM's events.
const event = `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1790000000,` +
	`"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

func stream(c net.Conn, n int) {
	io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for range n {
		<-t.C
		if _, err := io.WriteString(c, chunk); err != nil {
			return
		}
	}
	io.WriteString(c, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
}

// holdStream sends one event and waits until the router leaves.
func holdStream(c net.Conn) {
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
		len(event), event)
	io.Copy(io.Discard, c)
}
