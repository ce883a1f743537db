// Command train writes the demo model's tokenizer.json and
// tokenizer_config.json. It learns its merges from the documentation and
// sources in GOROOT (BSD licence). With the same Go release it writes the same
// bytes. Run it with `go generate` in the folder demo.
package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
)

const (
	merges  = 6000
	perFile = 200 << 10 // maximum number of bytes read from a file
)

// sources are folders and files under GOROOT: prose and code.
var sources = []string{
	"doc", "LICENSE", "README.md", "CONTRIBUTING.md", "SECURITY.md",
	"src/net/http", "src/encoding/json", "src/strings", "src/context", "src/sync", "src/time", "src/fmt", "src/errors",
	"src/io", "src/testing",
	"src/cmd/go/alldocs.go", "src/database/sql", "src/text/template", "src/math/rand",
}

//go:embed chat_template.jinja
var chatTemplate string

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, s := range sources {
		if err := count(counts, filepath.Join(strings.TrimSpace(string(root)), s)); err != nil {
			return err
		}
	}
	vocab, pairs := train(counts, merges)
	if err := writeJSON("tokenizer.json", tokenizerJSON(vocab, pairs), false); err != nil {
		return err
	}
	return writeJSON("tokenizer_config.json", configJSON(), true)
}

// count adds the pre-tokens of a file or of the files in a folder.
func count(counts map[string]int, root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if text = text[:min(len(text), perFile)]; !utf8.Valid(text) {
			return nil
		}
		for i := 0; i < len(text); {
			j := bpe.Qwen.PreTokenEnd(text, i)
			counts[string(text[i:j])]++
			i = j
		}
		return nil
	})
}

// word is a distinct pre-token, as the tokens that it is merged to so far.
type word struct {
	ids   []int
	count int
}

type pair [2]int

// trainer counts the pairs of adjacent tokens and the words that contain them.
type trainer struct {
	vocab []string // bytes of every token
	words []word
	count map[pair]int
	in    map[pair]map[int]bool
}

// train returns the vocabulary as bytes, single bytes first, and the merges in
// order. Ties go to the pair whose bytes come first.
func train(counts map[string]int, merges int) (vocab []string, pairs []pair) {
	t := &trainer{count: map[pair]int{}, in: map[pair]map[int]bool{}}
	for b := range 256 {
		t.vocab = append(t.vocab, string([]byte{byte(b)}))
	}
	for _, w := range sortedKeys(counts) {
		x := word{count: counts[w]}
		for i := range len(w) {
			x.ids = append(x.ids, int(w[i]))
		}
		t.words = append(t.words, x)
		t.add(len(t.words)-1, 1)
	}
	known := map[string]bool{}
	for len(pairs) < merges {
		p := t.best()
		if t.count[p] < 2 {
			break
		}
		s := t.vocab[p[0]] + t.vocab[p[1]]
		if known[s] { // another split of an existing token
			delete(t.count, p)
			continue
		}
		known[s] = true
		t.vocab = append(t.vocab, s)
		pairs = append(pairs, p)
		t.merge(p, len(t.vocab)-1)
	}
	return t.vocab, pairs
}

// add adds the pairs of word w to the counts, sign times.
func (t *trainer) add(w, sign int) {
	x := &t.words[w]
	for i := 0; i+1 < len(x.ids); i++ {
		p := pair{x.ids[i], x.ids[i+1]}
		t.count[p] += sign * x.count
		if sign < 0 {
			continue
		}
		if t.in[p] == nil {
			t.in[p] = map[int]bool{}
		}
		t.in[p][w] = true
	}
}

func (t *trainer) best() pair {
	var best pair
	n := 0
	for p, c := range t.count {
		if c > n || c == n && t.before(p, best) {
			best, n = p, c
		}
	}
	return best
}

func (t *trainer) before(a, b pair) bool {
	if c := cmp.Compare(t.vocab[a[0]], t.vocab[b[0]]); c != 0 {
		return c < 0
	}
	return t.vocab[a[1]] < t.vocab[b[1]]
}

// merge merges p into id in every word that contains it.
func (t *trainer) merge(p pair, id int) {
	for w := range t.in[p] {
		t.add(w, -1)
		old := t.words[w].ids
		var ids []int
		for i := 0; i < len(old); i++ {
			if i+1 < len(old) && old[i] == p[0] && old[i+1] == p[1] {
				ids = append(ids, id)
				i++
				continue
			}
			ids = append(ids, old[i])
		}
		t.words[w].ids = ids
		t.add(w, 1)
	}
	delete(t.count, p)
	delete(t.in, p)
}

func sortedKeys(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// chars encodes bytes as GPT-2's printable characters.
func chars(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(charOf(s[i]))
	}
	return b.String()
}

// charOf is GPT-2's printable character for a byte.
func charOf(b byte) rune {
	printable := func(b int) bool { return b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174 }
	if printable(int(b)) {
		return rune(b)
	}
	n := rune(256)
	for x := range int(b) {
		if !printable(x) {
			n++
		}
	}
	return n
}

// specials follow the learned tokens. The first three are those of ChatML.
var specials = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}

// plain lists added tokens that are not special: engines return them as text.
var plain = []string{"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"}

type object = map[string]any

func added(content string, special bool) object {
	return object{"content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		"special": special}
}

// forAdded calls f with every added token and its id.
func forAdded(first int, f func(id int, token object)) {
	for i, s := range append(slices.Clone(specials), plain...) {
		f(first+i, added(s, i < len(specials)))
	}
}

func tokenizerJSON(vocab []string, pairs []pair) any {
	byteLevel := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
	words := object{}
	for id, s := range vocab {
		words[chars(s)] = id
	}
	var ms []string
	for _, p := range pairs {
		ms = append(ms, chars(vocab[p[0]])+" "+chars(vocab[p[1]]))
	}
	var tokens []object
	forAdded(len(vocab), func(id int, token object) {
		token["id"] = id
		tokens = append(tokens, token)
	})
	return object{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": tokens,
		"normalizer": object{"type": "NFC"},
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{
			{"type": "Split", "pattern": object{"Regex": bpe.Qwen.Pattern()}, "behavior": "Isolated", "invert": false},
			byteLevel,
		}},
		"post_processor": byteLevel, "decoder": byteLevel,
		"model": object{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": "", "end_of_word_suffix": "",
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": words, "merges": ms,
		},
	}
}

func configJSON() any {
	decoder := object{}
	forAdded(256+merges, func(id int, token object) { decoder[fmt.Sprint(id)] = token })
	return object{
		"added_tokens_decoder": decoder, "add_bos_token": false, "add_prefix_space": false, "bos_token": nil,
		"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": nil, "additional_special_tokens": specials,
		"clean_up_tokenization_spaces": false, "split_special_tokens": false, "model_max_length": 131072, "errors": "replace",
		"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": strings.TrimSuffix(chatTemplate, "\n"),
	}
}

func writeJSON(name string, v any, indent bool) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
