//go:build engine

package engine

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
	prompts "github.com/kvasir-router/kvasir/host/tokenizer/chat"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat/parity"
)

// parity compares the ids of 300 conversations with those of the engine's own
// POST /tokenize.
func (f *fleet) parity(t *testing.T) {
	dir := filepath.Join(engineDir(t), "tiny-qwen3")
	enc, err := bpe.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := prompts.New(prompts.Config{Files: os.DirFS(dir), Encoder: enc})
	if err != nil {
		t.Fatal(err)
	}
	var bodies [][]byte
	for _, c := range parity.Conversations(7, 300) {
		bodies = append(bodies, c.Body("tiny", len(c.Messages)))
	}
	r, err := parity.Compare(t.Context(), http.DefaultClient, f.engines[0].URL, m, bodies)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v", r)
	for _, fault := range r.Faults {
		t.Log(fault)
	}
	if r.Different > 0 || r.Inexact > 0 || r.Equal < 200 {
		t.Errorf("%d equal, %d different, %d not known, %d refused by the engine", r.Equal, r.Different, r.Inexact, r.Refused)
	}
}
