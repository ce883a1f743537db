package parity

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat"
	"github.com/kvasir-router/kvasir/host/tokenizer/demo"
)

// TestCompare compares with an engine that is right, then wrong once, and rejects
// once.
func TestCompare(t *testing.T) {
	enc, err := demo.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	model, err := chat.New(chat.Config{Files: demo.Files(), Encoder: enc})
	if err != nil {
		t.Fatal(err)
	}
	var bodies [][]byte
	for _, c := range Conversations(1, 22) {
		bodies = append(bodies, c.Body("m", len(c.Messages)))
	}
	n := 0
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		var body json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/tokenize" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		var q llmapi.Request
		if err := q.Scan(llmapi.OpTokenize, body); err != nil {
			t.Error(err)
		}
		ids, err := model.Tokens(&q, nil)
		if n == 3 || err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if n == 5 {
			ids[len(ids)/2]++
		}
		json.NewEncoder(w).Encode(map[string]any{"tokens": ids, "count": len(ids)})
	}))
	defer engine.Close()
	got, err := Compare(context.Background(), engine.Client(), engine.URL, model, bodies)
	if err != nil {
		t.Fatal(err)
	}
	if got.Different != 1 || got.Refused < 1 || got.Inexact != 0 || got.Equal+got.Refused != len(bodies)-1 ||
		got.Equal < 15 || len(got.Faults) != 1 {
		t.Errorf("%v, faults %v", got, got.Faults)
	}
}
