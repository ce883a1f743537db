package simengine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
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

// FuzzConversions: a body of another API is a chat or refused.
func FuzzConversions(f *testing.F) {
	raw, err := os.ReadFile("../tokenizer/chat/testdata/vllm_apis.json")
	if err != nil {
		f.Fatal(err)
	}
	var bodies []struct{ In json.RawMessage }
	if err := json.Unmarshal(raw, &bodies); err != nil {
		f.Fatal(err)
	}
	for i, b := range bodies {
		f.Add([]byte(b.In), i%2 == 0, i%3 == 0)
	}
	f.Fuzz(func(t *testing.T, b []byte, parts, first bool) {
		v, err := jinja.DecodeJSON(b, nil)
		if err != nil || v.Dict() == nil {
			return
		}
		for _, api := range []string{"messages", "responses"} {
			if out, err := convert(v.Dict(), api, parts, first, true); err == nil {
				if _, ok := member(out.Dict(), "messages").Items(); !ok {
					t.Fatalf("%s: no messages", api)
				}
			}
		}
	})
}
