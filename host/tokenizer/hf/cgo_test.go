//go:build hf

package hf

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/oracle"
	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
)

// TestEncode_bpe compares the library with package bpe on texts of every kind.
func TestEncode_bpe(t *testing.T) {
	dirs := map[string]string{"demo": filepath.Join("..", "demo")}
	for _, name := range []string{"qwen3", "llama3_1", "gptoss", "gpt2"} {
		dirs[name] = oracle.Dir(t, name)
	}
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) {
			lib, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer lib.Close()
			own, err := bpe.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			var docs [][]byte
			docs = append(docs, oracle.Split(oracle.Prose(t, 500_000), 4096)...)
			docs = append(docs, oracle.Split(oracle.Code(t, 500_000), 100_000)...)
			docs = append(docs, oracle.Split(oracle.Languages(t, 500_000), 4096)...)
			docs = append(docs, oracle.Split(oracle.Tokens(21, 200_000, own.VocabSize(), own.Token), 3000)...)
			docs = append(docs, oracle.Random(22, 1000, "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|im_")...)
			var a, b []uint32
			bad := 0
			for _, d := range docs {
				d = slices.DeleteFunc(slices.Clone(d), func(c byte) bool { return c == 0 })
				if a, err = lib.Encode(a[:0], d); err != nil {
					t.Fatal(err)
				}
				if b, err = own.Encode(b[:0], d); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(a, b) {
					if bad++; bad < 4 {
						t.Errorf("%.200q: library %v, bpe %v", d, a, b)
					}
				}
			}
		})
	}
}

func TestEncode_refused(t *testing.T) {
	lib, err := Load(filepath.Join("..", "demo"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want error
	}{{"a\x00b", ErrNUL}, {"\xff", ErrInvalidUTF8}, {"", nil}, {"a", nil}} {
		if ids, err := lib.Encode(nil, []byte(c.text)); err != c.want || len(ids) > len(c.text) {
			t.Errorf("Encode(%q) = %v, %v, want error %v", c.text, ids, err, c.want)
		}
	}
	if err := lib.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := lib.Encode(nil, []byte("a")); err != ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("Load accepts an empty folder")
	}
}

// TestEncode_stress closes the tokenizer while other goroutines encode.
func TestEncode_stress(t *testing.T) {
	lib, err := Load(filepath.Join("..", "demo"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := lib.Encode(nil, []byte("Some words, 123."))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for k := range 300 {
				if g == 0 && k == 200 {
					lib.Close()
				}
				ids, err := lib.Encode(nil, []byte("Some words, 123."))
				if err == ErrClosed {
					return
				}
				if err != nil || !slices.Equal(ids, want) {
					t.Errorf("ids %v, %v, want %v", ids, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}
