package bpe_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/oracle"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
)

// flags of an added token: l(strip), r(strip), w (single_word), n(ormalized),
// s(pecial).
type flagged struct{ content, flags string }

// variants are sets of added tokens that are added to the demo tokenizer.
var variants = map[string][]flagged{
	"plain":       {{"<a>", "s"}, {"<ab>", ""}, {"<a>b", ""}, {"<", ""}, {"the", ""}, {"é", "s"}, {"e\u0301", ""}},
	"lstrip":      {{"<a>", "ls"}, {"<ab>", "l"}, {"<b>", ""}},
	"rstrip":      {{"<a>", "rs"}, {"<ab>", "r"}, {"<b>", ""}},
	"both":        {{"<a>", "lrs"}, {"<b>", "lr"}, {"<ab>", ""}},
	"mixed":       {{"<a>", "ls"}, {"<b>", "r"}, {"<ab>", "w"}},
	"single_word": {{"<a>", "ws"}, {"word", "w"}, {"the", "wl"}, {"<b>", "wr"}, {"né", "w"}, {"_x", "w"}},
	"spaces":      {{"\n\n", ""}, {"  ", ""}, {"\t", "s"}, {"   ", ""}, {"<a>", ""}},
	"overlap":     {{"\n", ""}, {"  ", ""}, {"<a>", "r"}},
	"normalized":  {{"<a>", "n"}, {"<b>", "sn"}, {"é!", "n"}, {"e\u0301?", "n"}, {"a\u0338", "sn"}, {"<ab>", ""}},
	"normalized_strip": {{"<a>", "nl"}, {"<b>", "nr"}, {"<ab>", "nlr"}, {"word", "nw"}, {"<|x|>", "s"},
		{"\u1100\u1161", "n"}},
	"normalized_line": {{"a\nb", "n"}, {"<a>", "n"}, {"\n\n", "n"}, {"<b>", ""}},
	"two_kinds":       {{"<a>", "n"}, {"<a>b", ""}, {"<", "n"}, {"b", "wn"}, {"<b>", "lr"}},
}

// pieces are the parts of the random documents of the variants.
var pieces = []string{"<a>", "<ab>", "<b>", "<", "<a>b", "<a", "word", "the", "né", "ne\u0301", "é!", "e\u0301!",
	"é?", "e\u0301?", "a\u0338", "<a>\u0338", "<b>\u0338",
	"_x", "x", "1", "a\nb", "a\n", "\n", "\n\n", "  ", "\t", "가", "\u1100\u1161", "\u1100\u1161\u11a8", "<|x|>", "<|x",
	"\u00a0", "\u3000", ".", "_", "\u0301", "\u200d", "٣"}

// variant writes the demo tokenizer with more added tokens and loads it.
func variant(t testing.TB, tokens []flagged, nfc bool) (tok *bpe.Tokenizer, file string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "demo", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var j map[string]json.RawMessage
	if err := json.Unmarshal(raw, &j); err != nil {
		t.Fatal(err)
	}
	var added []map[string]any
	if err := json.Unmarshal(j["added_tokens"], &added); err != nil {
		t.Fatal(err)
	}
	base, err := bpe.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	next := uint32(base.VocabSize())
	for _, x := range tokens {
		id, ok := base.ID(x.content)
		if !ok {
			id = next
			next++
		}
		has := func(c rune) bool { return slices.Contains([]rune(x.flags), c) }
		added = append(added, map[string]any{"id": id, "content": x.content, "lstrip": has('l'), "rstrip": has('r'),
			"single_word": has('w'),
			"normalized":  has('n'), "special": has('s')})
	}
	if j["added_tokens"], err = json.Marshal(added); err != nil {
		t.Fatal(err)
	}
	if !nfc {
		j["normalizer"] = json.RawMessage("null")
	}
	if raw, err = json.Marshal(j); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if tok, err = bpe.Load(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	return tok, file
}

func eachVariant(t *testing.T, f func(t *testing.T, tok *bpe.Tokenizer, file string)) {
	for name, tokens := range variants {
		for _, nfc := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/nfc=%v", name, nfc), func(t *testing.T) {
				tok, file := variant(t, tokens, nfc)
				f(t, tok, file)
			})
		}
	}
}

func TestEncode_addedTokens(t *testing.T) {
	testdeps.Sequential(t)
	eachVariant(t, func(t *testing.T, tok *bpe.Tokenizer, file string) {
		same(t, tok, file, append(randomPieces(5, 600), oracle.Random(6, 200, pieces...)...))
	})
}

func randomPieces(seed uint64, n int) [][]byte {
	r := rand.New(rand.NewPCG(seed, 3))
	docs := make([][]byte, n)
	for i := range docs {
		for range 1 + r.IntN(30) {
			docs[i] = append(docs[i], pieces[r.IntN(len(pieces))]...)
		}
	}
	return docs
}

func TestCut_addedTokens(t *testing.T) {
	testdeps.Sequential(t)
	eachVariant(t, func(t *testing.T, tok *bpe.Tokenizer, _ string) {
		cuts := 0
		for _, doc := range append(randomPieces(7, 400), oracle.Random(8, 80, pieces...)...) {
			cuts += checkCut(t, tok, doc)
		}
		t.Logf("%d cuts", cuts)
	})
}

func TestCut_real(t *testing.T) {
	testdeps.Sequential(t)
	for _, name := range []string{"qwen3", "llama3_1"} {
		tok, err := bpe.Load(oracle.Dir(t, name))
		if err != nil {
			t.Fatal(err)
		}
		marks := []string{"<|im_start|>", "<|im_end|>\n", "<|eot_id|>", "<|im_", "user\n", "<think>\n", "</think>", "\r\n",
			"x\n", "日\n", "1\r", "e\u0301\n", "<|start_header_id|>"}
		cuts := 0
		for _, doc := range oracle.Random(9, 600, marks...) {
			cuts += checkCut(t, tok, doc)
		}
		if cuts < 500 {
			t.Errorf("%s: %d cuts only", name, cuts)
		}
	}
}

// checkCut splits doc at every position into a text and its continuation and
// checks the guarantee of Cut. It returns the number of cuts.
func checkCut(t *testing.T, tok *bpe.Tokenizer, doc []byte) (cuts int) {
	t.Helper()
	encode := func(dst []uint32, s []byte) []uint32 {
		ids, err := tok.Encode(dst, s)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	whole := encode(nil, doc)
	last := 0
	for n := range doc {
		if doc[n]&0xC0 == 0x80 {
			continue
		}
		c := tok.Cut(doc[:n])
		if c == 0 || c == last {
			continue
		}
		if c > n {
			t.Fatalf("Cut(%q) = %d", doc[:n], c)
		}
		last = c
		cuts++
		// For a given c the parts are the same for every n: text after the cut
		// has no effect, which the prefix checks below verify.
		if got := encode(encode(nil, doc[:c]), doc[c:]); !slices.Equal(got, whole) {
			t.Errorf("Cut(%q) = %d, but with %q after it ids are %v, want %v", doc[:n], c, doc[n:], got, whole)
		}
		head := encode(nil, doc[:n])
		if got := encode(encode(nil, doc[:c]), doc[c:n]); !slices.Equal(got, head) {
			t.Errorf("Cut(%q) = %d: ids are %v, want %v", doc[:n], c, got, head)
		}
	}
	return cuts
}

func TestStarts(t *testing.T) {
	tok, _ := variant(t, []flagged{{"<a>", "l"}, {"<w>", "w"}, {"<n>", "n"}}, true)
	var got []int
	tok.Starts([]byte("x  <a><w> <n><a><|im_end|>"), func(at int) { got = append(got, at) })
	if want := []int{1, 13, 16}; !slices.Equal(got, want) {
		t.Errorf("starts at %v, want %v", got, want)
	}
}
