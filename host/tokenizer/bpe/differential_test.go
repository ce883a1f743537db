package bpe_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/oracle"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
)

// real lists one or more tokenizers of every supported family.
var real = []string{"qwen3", "llama3_1", "gptoss", "gpt4o", "gpt2"}

// corpus returns more than 3 MB of documents for one tokenizer.
func corpus(t testing.TB, tok *bpe.Tokenizer) [][]byte {
	var docs [][]byte
	docs = append(docs, oracle.Split(oracle.Prose(t, 700_000), 4096)...)
	docs = append(docs, oracle.Split(oracle.Code(t, 600_000), 400_000)...)
	docs = append(docs, oracle.Split(oracle.Languages(t, 800_000), 4096)...)
	docs = append(docs, oracle.Split(oracle.Tokens(1, 400_000, tok.VocabSize(), tok.Token), 3000)...)
	docs = append(docs, oracle.Random(2, 1500)...)
	docs = append(docs, oracle.Random(3, 600, "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<tool_call>",
		"<|im_", "<|start|>", "<")...)
	return append(docs, oracle.Long(4, 200_000)...)
}

// same compares the ids with those of Hugging Face, document by document.
func same(t *testing.T, tok *bpe.Tokenizer, tokenizerJSON string, docs [][]byte) {
	t.Helper()
	want := oracle.IDs(t, tokenizerJSON, docs)
	size, bad := 0, 0
	var got []uint32
	for i, d := range docs {
		size += len(d)
		var err error
		if got, err = tok.Encode(got[:0], d); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want[i]) {
			if bad++; bad <= 3 {
				t.Errorf("document %d: %s", i, difference(tok, d, got, want[i]))
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d documents differ", bad, len(docs))
	}
	t.Logf("%d documents, %d bytes", len(docs), size)
}

// difference describes the context of the first different id.
func difference(tok *bpe.Tokenizer, doc []byte, got, want []uint32) string {
	k := 0
	for k < min(len(got), len(want)) && got[k] == want[k] {
		k++
	}
	show := func(ids []uint32) (s []string) {
		for _, id := range ids[max(0, k-3):min(len(ids), k+8)] {
			s = append(s, fmt.Sprintf("%d %q", id, tok.Token(id)))
		}
		return s
	}
	return fmt.Sprintf("%.200q: at id %d got %v, want %v", doc, k, show(got), show(want))
}

func TestEncode_huggingFace(t *testing.T) {
	testdeps.Sequential(t)
	for _, name := range real {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := oracle.Dir(t, name)
			tok, err := bpe.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			same(t, tok, filepath.Join(dir, "tokenizer.json"), corpus(t, tok))
		})
	}
}

func TestEncode_demo(t *testing.T) {
	testdeps.Sequential(t)
	file := filepath.Join("..", "demo", "tokenizer.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := bpe.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	same(t, tok, file, corpus(t, tok))
}
