package fleet

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
)

// recorder is an engine that records the bytes of each request, as read from the
// socket, by the request's id.
type recorder struct {
	URL string

	mu  sync.Mutex        // guards got
	got map[string][]byte // by X-Request-Id
}

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{URL: "http://" + ln.Addr().String(), got: map[string][]byte{}}
	var wg sync.WaitGroup
	var open sync.Map
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Store(c, nil)
			wg.Go(func() {
				defer open.Delete(c)
				defer c.Close()
				r.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	return r
}

// serve answers the requests that a router sends to a vLLM engine, and every POST with an
// empty object.
func (r *recorder) serve(c net.Conn) {
	var raw bytes.Buffer
	br := bufio.NewReader(io.TeeReader(c, &raw))
	for {
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return
		}
		if q.Method == "POST" {
			r.mu.Lock()
			r.got[q.Header.Get("X-Request-Id")] = bytes.Clone(raw.Bytes())
			r.mu.Unlock()
		}
		raw.Reset()
		status, body := "200 OK", "{}"
		switch q.URL.Path {
		case "/version":
			body = `{"version":"0.32.0"}`
		case "/v1/models":
			body = `{"object":"list","data":[{"id":"m","object":"model"}]}`
		case "/kv_event_sources", "/metrics":
			status = "404 Not Found"
		}
		if _, err := io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Type: application/json\r\nContent-Length: "+
			strconv.Itoa(len(body))+"\r\n\r\n"+body); err != nil {
			return
		}
	}
}

// take removes and returns the request with an id, nil if there is none.
func (r *recorder) take(id string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.got[id]
	delete(r.got, id)
	return b
}
