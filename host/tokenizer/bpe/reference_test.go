package bpe_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
)

// reference is BPE by definition: it tries the pattern branch by branch and
// applies one merge at a time, lowest rank first. It supports Qwen's pattern
// and no normalizer.
type reference struct {
	vocab map[string]uint32
	ranks map[[2]string]int
}

// demo returns the demo tokenizer without NFC and the reference for it.
var demo = sync.OnceValues(func() (*bpe.Tokenizer, *reference) {
	raw, err := os.ReadFile(filepath.Join("..", "demo", "tokenizer.json"))
	if err != nil {
		panic(err)
	}
	raw = []byte(strings.Replace(string(raw), `"normalizer":{"type":"NFC"}`, `"normalizer":null`, 1))
	tok, err := bpe.Parse(raw)
	if err != nil {
		panic(err)
	}
	var j struct {
		Model struct {
			Vocab  map[string]uint32
			Merges []string
		}
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		panic(err)
	}
	r := &reference{j.Model.Vocab, map[[2]string]int{}}
	for i, m := range j.Model.Merges {
		a, b, _ := strings.Cut(m, " ")
		r.ranks[[2]string{a, b}] = i
	}
	return tok, r
})

// chars spells bytes as the vocabulary does.
func chars(s string) []string {
	var out []string
	for i := range len(s) {
		n, c := 256, rune(s[i])
		for b := range 256 {
			printable := b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174
			if b == int(s[i]) {
				if !printable {
					c = rune(n)
				}
				break
			}
			if !printable {
				n++
			}
		}
		out = append(out, string(c))
	}
	return out
}

func (r *reference) encode(text string) (ids []uint32) {
	for rest := []rune(text); len(rest) > 0; {
		n := qwen(rest)
		parts := chars(string(rest[:n]))
		for {
			best, at := 1<<30, -1
			for i := 0; i+1 < len(parts); i++ {
				if rank, ok := r.ranks[[2]string{parts[i], parts[i+1]}]; ok && rank < best {
					best, at = rank, i
				}
			}
			if at < 0 {
				break
			}
			parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
		}
		for _, p := range parts {
			ids = append(ids, r.vocab[p])
		}
		rest = rest[n:]
	}
	return ids
}

func isSpace(c rune) bool { return unicode.Is(unicode.White_Space, c) }

// qwen returns the length of the first match of Qwen's pattern.
func qwen(s []rune) int {
	letter, number, space := unicode.IsLetter, unicode.IsNumber, isSpace
	line := func(c rune) bool { return c == '\r' || c == '\n' }
	sign := func(c rune) bool { return !letter(c) && !number(c) && !space(c) }
	run := func(i int, f func(rune) bool) int {
		for i < len(s) && f(s[i]) {
			i++
		}
		return i
	}
	for _, c := range []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if k := len(c); len(s) >= k && strings.EqualFold(string(s[:k]), c) {
			return k
		}
	}
	if c := s[0]; !line(c) && !letter(c) && !number(c) {
		if e := run(1, letter); e > 1 {
			return e
		}
	}
	if e := run(0, letter); e > 0 {
		return e
	}
	if number(s[0]) {
		return 1
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	if e := run(i, sign); e > i {
		return run(e, line)
	}
	end := run(0, space)
	for e := end; e > 0; e-- {
		if line(s[e-1]) {
			return e
		}
	}
	if end < len(s) && end > 1 {
		return end - 1
	}
	return end
}

// stable reports whether all of s lies in ranges that no Unicode version after
// 9 has changed: the reference uses Go's tables, which change with its version.
func stable(s string) bool {
	for _, c := range s {
		if !(c < 0x500 || c >= 0x2000 && c < 0x2060 || c >= 0x3040 && c < 0x3100 || c >= 0x4e00 && c < 0x9fa0 ||
			c >= 0xac00 && c < 0xd7a4 || c == 0xfffd) {
			return false
		}
	}
	return true
}

func checkReference(t *testing.T, text string) {
	t.Helper()
	tok, ref := demo()
	if strings.Contains(text, "<") { // the reference has no added tokens
		text = strings.ReplaceAll(text, "<", "(")
	}
	got, err := tok.Encode(nil, []byte(text))
	if !utf8.ValidString(text) {
		if err != bpe.ErrInvalidUTF8 {
			t.Fatalf("Encode(%q): %v, want %v", text, err, bpe.ErrInvalidUTF8)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if want := ref.encode(text); !slices.Equal(got, want) {
		t.Errorf("Encode(%q) = %v, want %v", text, got, want)
	}
}

func FuzzEncode(f *testing.F) {
	for _, d := range randomPieces(11, 20) {
		f.Add(string(d))
	}
	f.Add("Hello, world's 123\r\n\n  x  \n")
	f.Add("\xff\xfe a")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 || !stable(strings.ToValidUTF8(text, "")) {
			return
		}
		checkReference(t, text)
	})
}

func FuzzCut(f *testing.F) {
	f.Add("<|im_start|>user\nhi<|im_end|>\n<|im_", "start|>x")
	f.Add("abc\n", "\ndef")
	f.Fuzz(func(t *testing.T, text, more string) {
		if len(text)+len(more) > 2000 || !utf8.ValidString(text) || !utf8.ValidString(more) {
			return
		}
		tok, _ := demo()
		c := tok.Cut([]byte(text))
		encode := func(dst []uint32, s string) []uint32 {
			ids, err := tok.Encode(dst, []byte(s))
			if err != nil {
				t.Fatal(err)
			}
			return ids
		}
		got, want := encode(encode(nil, text[:c]), text[c:]+more), encode(nil, text+more)
		if !slices.Equal(got, want) {
			t.Errorf("Cut(%q) = %d, but with %q after it ids are %v, want %v", text, c, more, got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(tiny(``, ``)))
	f.Add([]byte(`{"model":{"vocab":{"a":1},"merges":["a b"]}}`))
	f.Add([]byte(`{"added_tokens":[{"id":1,"content":"\u0120"}],"model":{"merges":[["a","b"]],` +
		`"vocab":{"\ud800":4294967295}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tok, err := bpe.Parse(raw)
		if err != nil {
			return
		}
		if _, err := tok.Encode(nil, []byte("some text, 123\n")); err != nil {
			t.Fatal(err)
		}
	})
}
