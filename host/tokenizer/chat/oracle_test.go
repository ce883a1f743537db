package chat_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/tokenizer"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat"
)

// TestTokens_huggingFace compares the tokens of whole chat bodies with those of
// Jinja2 and Hugging Face tokenizers, for Qwen3 and Llama-3.1, and their block
// hashes computed through the memo.
func TestTokens_huggingFace(t *testing.T) {
	testdeps.Sequential(t)
	f, err := os.Open(filepath.Join(testdeps.Cache(t), "chat", "ids.jsonl"))
	if err != nil {
		t.Fatalf("no references, run make deps: %v", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	var m *chat.Model
	var name string
	equal, refused := map[string]int{}, map[string]int{}
	q := &tokenizer.Query{Sizes: []int{16, 64}}
	var p tokenizer.Prompt
	for lines.Scan() {
		var l struct {
			M, T string
			C    json.RawMessage
			IDs  []uint32
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.T != "" {
			name = l.M
			m = cachedModel(t, name, func(c *chat.Config) { c.Template = l.T })
			continue
		}
		r := scan(t, llmapi.OpChat, append([]byte(nil), l.C...))
		got, err := m.Tokens(r, nil)
		if len(l.IDs) == 0 {
			if err == nil {
				t.Errorf("%s: rendered a body that Python rejects: %.300s", name, l.C)
			}
			refused[name]++
			continue
		}
		if err != nil || !slices.Equal(got, l.IDs) {
			t.Errorf("%s: %v, %d tokens, want %d: %.300s", name, err, len(got), len(l.IDs), l.C)
			continue
		}
		equal[name]++
		if err := m.Blocks(r, q, &p); err != nil {
			t.Fatal(err)
		}
		want, _ := wantPrompt(m, name, r, q)
		if d := same(&p, &want); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("equal %v, refusals agreed %v", equal, refused)
	if equal["qwen3"] < 300 || equal["llama3_1"] < 200 {
		t.Error("too few references, run make deps")
	}
}
