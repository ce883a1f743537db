package hf

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		text string
		want error
	}{
		{"", nil}, {"text, naïve 日本", nil}, {"a\x00b", ErrNUL}, {"a\xff", ErrInvalidUTF8}, {"\xed\xa0\x80", ErrInvalidUTF8},
	} {
		if got := check([]byte(c.text)); got != c.want {
			t.Errorf("check(%q) = %v, want %v", c.text, got, c.want)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := readFile(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("{")
	if _, err := readFile(dir); err == nil {
		t.Error("malformed file is accepted")
	}
	write(`{"truncation":{"max_length":3},"padding":{"x":1},"version":"1.0"}`)
	raw, err := readFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	var j map[string]any
	if err := json.Unmarshal(raw, &j); err != nil || j["truncation"] != nil || j["padding"] != nil ||
		j["version"] != "1.0" {
		t.Errorf("read %s (%v)", raw, err)
	}
}

// FuzzCheck verifies that check accepts no text that the library would change.
func FuzzCheck(f *testing.F) {
	f.Add([]byte("a\x00"))
	f.Add([]byte("\xc3\x28"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if check(text) != nil {
			return
		}
		for _, r := range string(text) {
			if r == 0 {
				t.Fatalf("%q is accepted", text)
			}
		}
		if string([]rune(string(text))) != string(text) {
			t.Fatalf("%q is accepted and changed", text)
		}
	})
}
