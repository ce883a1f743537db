package bpe_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/oracle"
	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
)

// BenchmarkParse measures the cost of loading a model at start.
func BenchmarkParse(b *testing.B) {
	for _, name := range real {
		raw, err := os.ReadFile(filepath.Join(oracle.Dir(b, name), "tokenizer.json"))
		if err != nil {
			b.Fatal(err)
		}
		b.Run("model="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bpe.Parse(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var benchTexts = flag.String("bench-texts", "", "folder to write the texts of BenchmarkEncode to")

// benchKinds are the texts of BenchmarkEncode, 1 MB each.
func benchKinds(t testing.TB) map[string][]byte {
	texts := map[string][]byte{"english": oracle.Prose(t, 1_000_000), "code": oracle.Code(t, 1_000_000),
		"multilingual": oracle.Languages(t, 1_000_000)}
	for kind, s := range texts {
		texts[kind] = oracle.Split(s, 1_000_000)[0]
	}
	return texts
}

// TestBenchTexts checks that the texts are long enough to measure and, on
// request, writes them to the folder that scripts/bench_hf.py reads.
func TestBenchTexts(t *testing.T) {
	for kind, s := range benchKinds(t) {
		if len(s) < 1_000_000 {
			t.Errorf("%d bytes of %s", len(s), kind)
		}
		if *benchTexts != "" {
			if err := os.WriteFile(filepath.Join(*benchTexts, kind+".txt"), s, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// BenchmarkEncode reports MB/s over 1 MB of text in documents of one size.
// pass=first starts with empty caches, as a router's first request does;
// pass=repeated encodes text that was encoded before.
func BenchmarkEncode(b *testing.B) {
	texts := benchKinds(b)
	for _, name := range []string{"llama3_1", "qwen3", "gptoss", "gpt2"} {
		tok, err := bpe.Load(oracle.Dir(b, name))
		if err != nil {
			b.Fatal(err)
		}
		for _, kind := range []string{"english", "code", "multilingual"} {
			for _, size := range []int{4096, 409600} {
				docs := oracle.Split(texts[kind], size)
				for _, pass := range []string{"first", "repeated"} {
					b.Run(fmt.Sprintf("family=%s/kind=%s/size=%d/pass=%s", name, kind, size, pass), func(b *testing.B) {
						benchEncode(b, tok, docs, pass == "first")
					})
				}
			}
		}
	}
}

func benchEncode(b *testing.B, tok *bpe.Tokenizer, docs [][]byte, first bool) {
	var dst []uint32
	total := 0
	for _, d := range docs {
		total += len(d)
	}
	b.SetBytes(int64(total))
	b.ReportAllocs()
	for b.Loop() {
		if first {
			tok.EmptyCaches()
		}
		for _, d := range docs {
			var err error
			if dst, err = tok.Encode(dst[:0], d); err != nil {
				b.Fatal(err)
			}
		}
	}
}
