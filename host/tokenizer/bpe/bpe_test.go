package bpe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
)

// tiny is a tokenizer with the 256 bytes, "ab" and "abc". more is inserted into
// the object, model into its "model" member.
func tiny(more, model string) string {
	var vocab []string
	for b := range 256 {
		key, _ := json.Marshal(chars(string([]byte{byte(b)}))[0])
		vocab = append(vocab, fmt.Sprintf("%s:%d", key, b))
	}
	return fmt.Sprintf(`{"version":"1.0",%s`+
		`"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
"model":{"type":"BPE",%s"vocab":{%s,"ab":256,"abc":257},"merges":["a b","ab c"]}}`, more, model,
		strings.Join(vocab, ","))
}

func TestParse_tiny(t *testing.T) {
	tok, err := bpe.Parse([]byte(tiny(`"added_tokens":[{"id":258,"content":"<s>","special":true,`+
		`"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],
		"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",
		"single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},`+
		`{"SpecialToken":{"id":"<s>","type_id":0}}],
		"special_tokens":{"<s>":{"id":"<s>","ids":[258],"tokens":["<s>"]}}}]},`, "")))
	if err != nil {
		t.Fatal(err)
	}
	got, err := tok.Encode([]uint32{7}, []byte("abcab<s> "))
	if want := []uint32{7, 257, 256, 258, ' '}; err != nil || !slices.Equal(got, want) {
		t.Errorf("ids %v (%v), want %v", got, err, want)
	}
	prefix, suffix := tok.Affixes()
	if !slices.Equal(prefix, []uint32{258}) || !slices.Equal(suffix, []uint32{258}) {
		t.Errorf("affixes %v and %v", prefix, suffix)
	}
	if id, ok := tok.ID("abc"); !ok || id != 257 {
		t.Errorf(`ID("abc") = %d, %v`, id, ok)
	}
	if id, ok := tok.ID("Ġ"); !ok || id != ' ' {
		t.Errorf(`ID("Ġ") = %d, %v`, id, ok)
	}
	if id, ok := tok.ID("xyz"); ok {
		t.Errorf(`ID("xyz") = %d`, id)
	}
	if got := string(tok.Token(' ')); got != " " {
		t.Errorf("token of space: %q", got)
	}
	if got := tok.Token(259); got != nil {
		t.Errorf("token 259: %q", got)
	}
	if tok.VocabSize() != 259 || tok.Family() != bpe.GPT2 {
		t.Errorf("size %d, family %s", tok.VocabSize(), tok.Family())
	}
}

// TestParse_unsupported changes one part at a time and expects an error that names it.
func TestParse_unsupported(t *testing.T) {
	split := func(pattern, behavior string, more string) string {
		return `"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"` + pattern +
			`"},"behavior":"` + behavior +
			`","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}` + more + `]}`
	}
	byteLevel := `"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`
	qwen, _ := json.Marshal(bpe.Qwen.Pattern())
	pattern := string(qwen[1 : len(qwen)-1])
	for _, c := range []struct {
		name, more, model    string
		old, new             string // in the whole text
		wantPart, wantDetail string
	}{
		{name: "member", more: `"dialect":1,`, wantPart: "member", wantDetail: "dialect"},
		{name: "version", old: `"1.0"`, new: `"2.0"`, wantPart: "version", wantDetail: "2.0"},
		{name: "normalizer", more: `"normalizer":{"type":"NFKC"},`, wantPart: "normalizer", wantDetail: "NFKC"},
		{name: "normalizers", more: `"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]},`,
			wantPart: "normalizer", wantDetail: "Sequence"},
		{name: "normalizer member", more: `"normalizer":{"type":"NFC","strict":true},`, wantPart: "normalizer",
			wantDetail: "strict"},
		{name: "metaspace", old: byteLevel, new: `"pre_tokenizer":{"type":"Metaspace"}`, wantPart: "pre_tokenizer",
			wantDetail: "Metaspace"},
		{name: "none", old: byteLevel, new: `"pre_tokenizer":null`, wantPart: "pre_tokenizer", wantDetail: `""`},
		{name: "prefix space", old: `"add_prefix_space":false`, new: `"add_prefix_space":true`, wantPart: "pre_tokenizer",
			wantDetail: "add_prefix_space"},
		{name: "pattern", old: byteLevel, new: split(`\\d+`, "Isolated", ""), wantPart: "pre_tokenizer", wantDetail: `\\d+`},
		{name: "behavior", old: byteLevel, new: split(pattern, "MergedWithNext", ""), wantPart: "pre_tokenizer",
			wantDetail: "MergedWithNext"},
		{name: "third", old: byteLevel, new: split(pattern, "Isolated", `,{"type":"Digits"}`), wantPart: "pre_tokenizer",
			wantDetail: "sequence of 3"},
		{name: "type", old: `"type":"BPE"`, new: `"type":"WordPiece"`, wantPart: "model", wantDetail: "WordPiece"},
		{name: "dropout", model: `"dropout":0.1,`, wantPart: "model", wantDetail: "dropout"},
		{name: "prefix", model: `"continuing_subword_prefix":"##",`, wantPart: "model",
			wantDetail: "continuing_subword_prefix"},
		{name: "suffix", model: `"end_of_word_suffix":"</w>",`, wantPart: "model", wantDetail: "end_of_word_suffix"},
		{name: "model member", model: `"beam":3,`, wantPart: "model", wantDetail: "beam"},
		{name: "byte", old: `"q":113,`, new: ``, wantPart: "vocabulary", wantDetail: "0x71"},
		{name: "id twice", old: `"abc":257`, new: `"abc":256`, wantPart: "vocabulary", wantDetail: "256 twice"},
		{name: "token twice", old: `"abc":257`, new: `"abc":257,"abc":258`, wantPart: "vocabulary", wantDetail: "258"},
		{name: "id", old: `"abc":257`, new: `"abc":2000000`, wantPart: "vocabulary", wantDetail: "2000000"},
		{name: "long", old: `"abc":257`, new: `"abc":257,"` + strings.Repeat("z", 255) + `":258`, wantPart: "vocabulary",
			wantDetail: "255 bytes"},
		{name: "added id", more: `"added_tokens":[{"id":300,"content":"<s>"}],`, wantPart: "added_tokens", wantDetail: "300"},
		{name: "added twice", more: `"added_tokens":[{"id":258,"content":"<s>"},{"id":258,"content":"<s>","lstrip":true}],`,
			wantPart: "added_tokens", wantDetail: "twice"},
		{name: "added member", more: `"added_tokens":[{"id":258,"content":"<s>","fold":true}],`, wantPart: "added_tokens",
			wantDetail: "fold"},
		{name: "post", more: `"post_processor":{"type":"BertProcessing"},`, wantPart: "post_processor",
			wantDetail: "BertProcessing"},
		{name: "unigram", old: `"merges":["a b","ab c"]`, new: `"scores":[]`, wantPart: "model", wantDetail: "scores"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := tiny(c.more, c.model)
			if c.old != "" {
				if !strings.Contains(raw, c.old) {
					t.Fatalf("no %q", c.old)
				}
				raw = strings.Replace(raw, c.old, c.new, 1)
			}
			_, err := bpe.Parse([]byte(raw))
			e, ok := errors.AsType[*bpe.UnsupportedError](err)
			if !ok || e.Part != c.wantPart || !strings.Contains(e.Detail, c.wantDetail) {
				t.Errorf("error %v, want part %q with %q", err, c.wantPart, c.wantDetail)
			}
		})
	}
}

func TestParse_malformed(t *testing.T) {
	good := tiny("", "")
	for _, raw := range []string{"", "{", "[]", good[:len(good)/2], good + "x",
		strings.Replace(good, `"ab c"`, `"ab"`, 1), strings.Replace(good, `"ab c"`, `"ab q"`, 1),
		strings.Replace(good, `"a b"`, `["a","b","c"]`, 1), strings.Replace(good, `:256`, `:-1`, 1),
		`{"x":` + strings.Repeat("[", 1000)} {
		if _, err := bpe.Parse([]byte(raw)); err == nil || !strings.HasPrefix(err.Error(), "bpe: ") {
			t.Errorf("Parse(%.40q…): error %v", raw, err)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := bpe.Load(dir); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("no file: %v", err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer.json", tiny("", ""))
	write("tokenizer_config.json", `{"added_tokens_decoder":{"258":{"content":"<x>","special":true}},`+
		`"add_prefix_space":false}`)
	tok, err := bpe.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if ids, _ := tok.Encode(nil, []byte("<x>a")); !slices.Equal(ids, []uint32{258, 'a'}) {
		t.Errorf("ids %v", ids)
	}
	for _, c := range []struct{ config, want string }{
		{`{`, "tokenizer_config.json"},
		{`{"added_tokens_decoder":{"x":{"content":"<x>"}}}`, `"x"`},
		{`{"added_tokens_decoder":{"300":{"content":"<x>"}}}`, "300"},
		{`{"add_prefix_space":true}`, "add_prefix_space"},
	} {
		write("tokenizer_config.json", c.config)
		if _, err := bpe.Load(dir); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("config %s: error %v", c.config, err)
		}
	}
}

func TestEncode_golden(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Cases []struct {
			Text string
			IDs  []uint32
		}
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if raw, err = os.ReadFile(filepath.Join("..", "demo", "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	tok, err := bpe.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range golden.Cases {
		if got, err := tok.Encode(nil, []byte(c.Text)); err != nil || !slices.Equal(got, c.IDs) {
			t.Errorf("Encode(%q) = %v (%v), want %v", c.Text, got, err, c.IDs)
		}
	}
}

func TestEncode_reference(t *testing.T) {
	for _, d := range randomPieces(12, 300) {
		if stable(string(d)) {
			checkReference(t, string(d))
		}
	}
}

func TestEncode_allocations(t *testing.T) {
	tok, _ := demo()
	text := []byte(strings.Repeat("<|im_start|>user\nSome words, and naïve ones: 12.\n<|im_end|>", 20))
	dst, err := tok.Encode(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { dst, _ = tok.Encode(dst[:0], text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
