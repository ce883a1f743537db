package demo

import (
	"encoding/json"
	"io/fs"
	"slices"
	"testing"
)

func TestTokenizer(t *testing.T) {
	tok, err := Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := Tokenizer(); again != tok {
		t.Error("Tokenizer loads twice")
	}
	text := "<|im_start|>user\nWhat does http.Handler do? 日本<|im_end|>\n"
	ids, err := tok.Encode(nil, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	start, _ := tok.ID("<|im_start|>")
	end, _ := tok.ID("<|im_end|>")
	if ids[0] != start || !slices.Contains(ids, end) {
		t.Errorf("ids %v without %d and %d", ids, start, end)
	}
	var back []byte
	for _, id := range ids {
		back = append(back, tok.Token(id)...)
	}
	if string(back) != text {
		t.Errorf("decoded %q, want %q", back, text)
	}
	if got, want := tok.VocabSize(), 256+6000+9; got != want {
		t.Errorf("vocabulary of %d, want %d", got, want)
	}
}

func TestFiles(t *testing.T) {
	raw, err := fs.ReadFile(Files(), "tokenizer_config.json")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Template string `json:"chat_template"`
		EOS      string `json:"eos_token"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	if c.Template == "" || c.EOS != "<|im_end|>" {
		t.Errorf("template of %d bytes, EOS %q", len(c.Template), c.EOS)
	}
	if raw, err := fs.ReadFile(Files(), "tokenizer.json"); err != nil || len(raw) > 400<<10 {
		t.Errorf("tokenizer.json: %v, %d bytes, want at most 400 KiB", err, len(raw))
	}
}
