package simengine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// toyTokenizer is a Prompter and a Vocabulary small enough to be obvious: bytes
// are ids 0..255, then come words without and with a space before them, then
// the marks of the chat template.
type toyTokenizer struct {
	words []string
	ids   map[string]uint32
}

func newToy() *toyTokenizer {
	t := &toyTokenizer{ids: map[string]uint32{}}
	for _, sp := range []string{"", " "} {
		for a := 'a'; a <= 'z'; a++ {
			for b := 'a'; b <= 'z'; b++ {
				w := sp + string([]rune{a, b, 'a'})
				t.ids[w] = uint32(256 + len(t.words))
				t.words = append(t.words, w)
			}
		}
	}
	for _, m := range []string{"<system>", "<user>", "<assistant>", "<end>"} {
		t.ids[m] = uint32(256 + len(t.words))
		t.words = append(t.words, m)
	}
	return t
}

func (t *toyTokenizer) VocabSize() int { return 256 + len(t.words) }

func (t *toyTokenizer) Token(id uint32) []byte {
	if id < 256 {
		return []byte{byte(id)}
	}
	return []byte(t.words[id-256])
}

// Encode splits before spaces and around marks; a part that is no word is bytes.
func (t *toyTokenizer) Encode(dst []uint32, text []byte) ([]uint32, error) {
	s := strings.NewReplacer(" ", "\x00 ", "<", "\x00<", ">", ">\x00").Replace(string(text))
	for part := range strings.SplitSeq(s, "\x00") {
		if id, ok := t.ids[part]; ok {
			dst = append(dst, id)
			continue
		}
		for _, b := range []byte(part) {
			dst = append(dst, uint32(b))
		}
	}
	return dst, nil
}

func (t *toyTokenizer) TextTokens(text string) ([]uint32, error) { return t.Encode(nil, []byte(text)) }

func (t *toyTokenizer) ChatTokens(body []byte, _ string) ([]uint32, error) {
	var b struct {
		Messages []struct{ Role, Content string }
		Input    []struct{ Role, Content string }
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	var s strings.Builder
	for _, m := range append(b.Messages, b.Input...) {
		fmt.Fprintf(&s, "<%s>%s<end>", m.Role, m.Content)
	}
	return t.TextTokens(s.String() + "<assistant>")
}

// rig is an engine that serves on loopback until its test ends.
type rig struct {
	*Engine
	t           *testing.T
	url         string
	addr        string
	pub, replay string // addresses
	toy         *toyTokenizer
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run starts an engine; by default it is the instant one with blocks of 4.
func run(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	toy := newToy()
	cfg := Config{Prompter: toy, Vocabulary: toy, Preset: "instant", BlockTokens: 4, Topic: "kv"}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, pub, replay := listen(t), listen(t), listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx, ln, pub, replay) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	addr := ln.Addr().String()
	return &rig{Engine: e, t: t, url: "http://" + addr, addr: addr,
		pub: pub.Addr().String(), replay: replay.Addr().String(), toy: toy}
}

// do sends one request on a connection of its own and returns status and body.
func (r *rig) do(method, path, body string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Close = true
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func (r *rig) post(path, body string) (int, string) {
	r.t.Helper()
	return r.do("POST", path, body)
}

// mustPost wants a 200 and decodes it.
func (r *rig) mustPost(path, body string) *completion {
	r.t.Helper()
	status, out := r.post(path, body)
	if status != 200 {
		r.t.Fatalf("POST %s: %d %s", path, status, out)
	}
	var c completion
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		r.t.Fatalf("%v in %s", err, out)
	}
	return &c
}

func (r *rig) faultsSet(body string) {
	r.t.Helper()
	if status, out := r.post("/sim/faults", body); status != 200 {
		r.t.Fatalf("faults: %d %s", status, out)
	}
}

// metric returns a sample of /metrics by the beginning of its line.
func (r *rig) metric(prefix string) (v float64) {
	r.t.Helper()
	_, out := r.do("GET", "/metrics", "")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, prefix) {
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err != nil {
				r.t.Fatal(err)
			}
			return v
		}
	}
	r.t.Fatalf("no metric %s", prefix)
	return 0
}

// until waits for a condition that other goroutines bring about.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(200 * time.Microsecond) // polls; nothing can be waited for
	}
}

// events splits a stream of server-sent events.
func sse(t *testing.T, r io.Reader) (events []string) {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for e := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(e, "data: ")
		if !ok {
			t.Fatalf("event %q", e)
		}
		events = append(events, data)
	}
	return events
}

// raw sends bytes on a new connection.
func (r *rig) raw(b string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte(b)); err != nil {
		r.t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func postBytes(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len(body), body)
}

func (r *rig) records() (out []record) {
	r.t.Helper()
	_, body := r.do("GET", "/sim/requests", "")
	d := json.NewDecoder(bytes.NewReader([]byte(body)))
	for d.More() {
		var rec record
		if err := d.Decode(&rec); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}
