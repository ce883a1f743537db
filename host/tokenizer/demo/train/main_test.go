package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
)

// TestTrain: the most frequent pair is merged first, among equals the one whose bytes come
// first, and a pair that occurs once never.
func TestTrain(t *testing.T) {
	// Counts of pairs: es 9, st 9, lo 7, ow 7, we 8 (newest, lower), ew 6, ne 6, …
	counts := map[string]int{"low": 5, "lower": 2, "newest": 6, "widest": 3, "zq": 1}
	vocab, pairs := train(counts, 100)
	var got []string
	for i, p := range pairs {
		if vocab[256+i] != vocab[p[0]]+vocab[p[1]] {
			t.Fatalf("token %d is %q, of %q and %q", 256+i, vocab[256+i], vocab[p[0]], vocab[p[1]])
		}
		got = append(got, vocab[256+i])
	}
	if want := []string{"es", "est", "lo", "low", "ew"}; !slices.Equal(got[:5], want) {
		t.Errorf("merges %q, want %q first", got, want)
	}
	if slices.Contains(got, "zq") {
		t.Error("merged a pair that occurs once")
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(got))); len(distinct) != len(got) {
		t.Errorf("a token twice: %q", got)
	}
	again, _ := train(counts, 100)
	if !slices.Equal(vocab, again) {
		t.Error("two runs differ")
	}
	if _, few := train(counts, 2); len(few) != 2 {
		t.Errorf("%d merges, want 2", len(few))
	}
}

// TestTokenizerJSON: the router's tokenizer reads what is written, and encodes as it was
// trained.
func TestTokenizerJSON(t *testing.T) {
	vocab, pairs := train(map[string]int{"low": 5, "lower": 2, "newest": 6, "widest": 3}, 100)
	text, err := json.Marshal(tokenizerJSON(vocab, pairs))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := bpe.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	end := uint32(len(vocab) + slices.Index(specials, "<|im_end|>"))
	for _, c := range []struct {
		text string
		want []uint32
	}{
		{"low", []uint32{uint32(slices.Index(vocab, "low"))}},
		{"newest<|im_end|>", []uint32{uint32(slices.Index(vocab, "newest")), end}},
		{"\xc3\xa9", []uint32{0xc3, 0xa9}}, // bytes without a merge are their own ids
	} {
		got, err := tok.Encode(nil, []byte(c.text))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %d, %v; want %d", c.text, got, err, c.want)
		}
	}
}

// TestConfigJSON: both files give an added token the same id, behind all learned ones.
func TestConfigJSON(t *testing.T) {
	decoder := configJSON().(object)["added_tokens_decoder"].(object)
	if len(decoder) != len(specials)+len(plain) {
		t.Fatalf("%d added tokens", len(decoder))
	}
	for i, want := range append(slices.Clone(specials), plain...) {
		token, ok := decoder[fmt.Sprint(256+merges+i)].(object)
		if !ok || token["content"] != want || token["special"] != (i < len(specials)) {
			t.Errorf("token %d: %v, want %q", 256+merges+i, token, want)
		}
	}
}

// TestCharOf: every byte has a character of its own, those of GPT-2.
func TestCharOf(t *testing.T) {
	seen := map[rune]bool{}
	for b := range 256 {
		seen[charOf(byte(b))] = true
	}
	if len(seen) != 256 {
		t.Errorf("%d characters for 256 bytes", len(seen))
	}
	for b, want := range map[byte]rune{0: 'Ā', '\n': 'Ċ', ' ': 'Ġ', '!': '!', '~': '~', 127: 'ġ', 160: 'ł', 173: 'Ń',
		255: 'ÿ'} {
		if got := charOf(b); got != want {
			t.Errorf("byte %d: got %q, want %q", b, got, want)
		}
	}
}
