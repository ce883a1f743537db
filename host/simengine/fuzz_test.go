package simengine

import (
	"bufio"
	"bytes"
	"testing"
	"time"
)

// FuzzReadMessage: foreign bytes never panic and never make much memory.
func FuzzReadMessage(f *testing.F) {
	f.Add(appendMessage(nil, []byte{1}, []byte("kv")))
	f.Add(appendFrame(nil, bytes.Repeat([]byte("x"), 300), zmtpCommand))
	f.Add([]byte{2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		br := bufio.NewReader(bytes.NewReader(b))
		for {
			frames, _, err := readMessage(br)
			if err != nil {
				return
			}
			for _, f := range frames {
				if len(f) > len(b) {
					t.Fatalf("frame of %d bytes out of %d", len(f), len(b))
				}
			}
		}
	})
}

// FuzzReadRequest: foreign bytes are a request, a refusal or an error.
func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(postBytes("/v1/chat/completions", hello)))
	f.Add([]byte("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"))
	f.Add([]byte("GET /%zz HTTP/1.0\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		br := bufio.NewReader(bytes.NewReader(b))
		for range 10 {
			r, err := readRequest(br, 1000, time.Now, func() error { return nil })
			if err != nil {
				return
			}
			if r.bad == nil && (r.method == "" || r.path == "") || len(r.body) > 1000 {
				t.Fatalf("%+v", r)
			}
		}
	})
}
