package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
)

type malformedCase struct {
	id      string
	must400 bool
	raw     string
}

func malformedCases(t testing.TB) (cases []malformedCase) {
	t.Helper()
	b, err := os.ReadFile("testdata/malformed.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		raw, err := strconv.Unquote(f[2])
		if err != nil {
			t.Fatal(f[0], err)
		}
		cases = append(cases, malformedCase{f[0], f[1] == "400", raw})
	}
	return cases
}

var (
	requestLine = regexp.MustCompile(`(?m)^([A-Za-z]+) /[A-Za-z0-9/]* HTTP/`)
	sayings     = strings.NewReplacer("hello-bananas", "{           }", "helloworld", "{        }", "hello", "{   }")
)

// served turns a case into one that the router would serve if it were well
// formed: the path is one of its own and what is said is JSON of equal length.
func (c malformedCase) served() string {
	return sayings.Replace(requestLine.ReplaceAllString(c.raw, "$1 /v1/chat/completions HTTP/"))
}

// posted turns a case of a GET into a request with a body, so that its fault is in a
// request that the router would forward. It is "" for other cases.
func (c malformedCase) posted() string {
	head, ok := strings.CutSuffix(c.raw, "\r\n\r\n")
	if !ok || !strings.HasPrefix(c.raw, "GET ") || strings.Contains(strings.ToLower(head), "\r\ncontent-length") {
		return ""
	}
	return requestLine.ReplaceAllString("POST"+head[3:], "$1 /v1/chat/completions HTTP/") +
		"\r\nContent-Length: 2\r\n\r\n{}"
}

// lenient are forms of chunked framing that fasthttp and net/http accept where
// the grammar does not. The router frames the body again for the engine, so
// no component behind it can read them differently.
var lenient = map[string]bool{
	"SMUG-CHUNK-BARE-SEMICOLON": true, "SMUG-CHUNK-EXT-INVALID-TOKEN": true, "SMUG-CHUNK-SIZE-TRAILING-OWS": true,
}

// wholeRequests is how many requests net/http reads in b, and whether all of b
// are whole requests.
func wholeRequests(b []byte) (n int, clean bool) {
	br := bufio.NewReader(bytes.NewReader(b))
	for {
		if _, err := br.Peek(1); err != nil {
			return n, true
		}
		r, err := http.ReadRequest(br)
		if err != nil {
			return n, false
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return n, false
		}
		n++
	}
}

var statusLine = regexp.MustCompile(`HTTP/1\.[01] (\d{3})`)

// Whatever a client sends, an engine gets whole requests of which net/http reads
// exactly one per exchange, and never more of them than it reads in what the
// client sent.
func TestMalformed(t *testing.T) {
	work := make(chan malformedCase)
	var wg sync.WaitGroup
	var mu sync.Mutex
	forwarded := 0
	for range 8 {
		addr, captured := recorder(t)
		x := start(t, newRouter(addr), func(c *setup) { c.BodyTimeout = 150 * time.Millisecond })
		wg.Go(func() {
			for c := range work {
				for _, raw := range []string{c.raw, c.served(), c.posted()} {
					if raw == "" {
						continue
					}
					n := checkMalformed(t, x.addr, c, raw, captured)
					mu.Lock()
					forwarded += n
					mu.Unlock()
				}
			}
		})
	}
	cases := malformedCases(t)
	for _, c := range cases {
		work <- c
	}
	close(work)
	wg.Wait()
	t.Logf("%d cases, %d requests forwarded", len(cases), forwarded)
	if forwarded < 30 {
		t.Error("hardly any case reaches the engine, so this shows little")
	}
}

func checkMalformed(t *testing.T, addr string, c malformedCase, raw string, captured chan []byte) (forwarded int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(conn, raw)
	answer, err := io.ReadAll(conn) // the idle limit ends it
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("%s: connection stays open: %q", c.id, answer)
	}
	for len(captured) > 0 {
		b := <-captured
		forwarded++
		if n, clean := wholeRequests(b); n != 1 || !clean {
			t.Errorf("%s: %q\nreached the engine as %q", c.id, raw, b)
		}
	}
	may, _ := wholeRequests([]byte(raw))
	if forwarded > may {
		t.Errorf("%s: %d requests reached the engine, net/http reads %d in %q", c.id, forwarded, may, raw)
	}
	if c.must400 && !lenient[c.id] {
		st := statusLine.FindSubmatch(answer)
		if forwarded > 0 || st != nil && st[1][0] != '4' && st[1][0] != '5' {
			t.Errorf("%s: must be refused, got %.60q for %q", c.id, answer, raw)
		}
	}
	return forwarded
}

// The head is read by fasthttp and once more by fields.read. What passes both is
// read alike by net/http.
func FuzzHead(f *testing.F) {
	for _, c := range malformedCases(f) {
		f.Add([]byte(c.raw))
		f.Add([]byte(c.served()))
		f.Add([]byte(c.posted()))
	}
	f.Add([]byte(post(plainBody, "Connection: a, b\r\nX_Api_Key: k\r\n")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		head, ok := readHead(raw)
		if !ok {
			return
		}
		out := head.appendHead(nil, &exchange.Target{Addr: "engine:80", Authorization: "Bearer k"}, "/v1/completions", "id",
			2)
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append(out, "{}"...))))
		if err != nil {
			t.Fatalf("%v in %q\nfrom %q", err, out, raw)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "{}" || r.Host != "engine:80" || r.URL.Path != "/v1/completions" ||
			r.Method != "POST" ||
			r.ContentLength != 2 || len(r.TransferEncoding) != 0 || len(r.Header["Authorization"]) != 1 ||
			len(r.Header["Cookie"]) != 0 || len(r.Header["X-Api-Key"]) != 0 || len(r.Header["X-Tenant-Id"]) != 0 {
			t.Fatalf("%v %+v", err, r)
		}
	})
}

// readHead reads a head as the proxy does; false if it is refused.
func readHead(raw []byte) (*fields, bool) {
	var h fasthttp.RequestHeader
	if err := h.Read(bufio.NewReaderSize(bytes.NewReader(raw), 16<<10)); err != nil {
		return nil, false
	}
	var f fields
	return &f, f.read(&h, &hintTable{session: "x-kvasir-session"}) == nil
}
