package bpe

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func TestAppendNFC(t *testing.T) {
	unicodeInit()
	for _, c := range []struct{ in, want string }{
		{"plain", "plain"},
		{"e\u0301", "é"},
		{"\u1100\u1161\u11a8", "각"},
		{"가\u11a8", "각"},
		{"a\u0345\u0301\u0316\u0323", "á\u0316\u0323\u0345"}, // reordered by class, 0323 blocked
		{"é\u0323", "ẹ\u0301"},                               // a mark moves before another
		{"\u2126\u212b", "ΩÅ"},                               // singletons
		{"\u0958", "\u0915\u093c"},                           // excluded from composition
		{"\u0bc6\u0bbe", "\u0bca"},                           // Tamil: class 0 composes
		{"\u0b95\u0bbe", "\u0b95\u0bbe"},                     // but not always
		{"<\u0338", "≮"},
		{"x\u0301\u0327", "x\u0327\u0301"},
		{"\u0301e", "\u0301e"},
		{"a\U00010d25\u0316", "a\U00010d25\u0316"}, // a mark of Unicode 11: unchanged
	} {
		if got := string(appendNFC(nil, []byte(c.in))); got != c.want {
			t.Errorf("NFC of %+q = %+q, want %+q", c.in, got, c.want)
		}
	}
}

// TestIsNFC_quick checks text with the marks of living scripts in their usual
// order. isNFC must recognise all of it, so that it is not normalized.
func TestIsNFC_quick(t *testing.T) {
	unicodeInit()
	for _, s := range []string{"हिन्दी क्षेत्र", "தமிழ் கா கொ", "বাংলা ভাষা", "Tiếng Việt", "שָׁלוֹם", "مُحَمَّد",
		"한국어 가각", "ภาษาไทย ที่นี่", "မြန်မာ", "ελληνικά", "が ぱ", "മലയാളം"} {
		if !isNFC([]byte(s)) {
			t.Errorf("%q is not recognised as NFC", s)
		}
	}
}

// FuzzNFC compares the result with normalizing the whole text as one stretch.
func FuzzNFC(f *testing.F) {
	for _, s := range []string{"e\u0301x", "\u1100\u1161\u11a8", "a\u0345\u0301\u0316", "\u0bc6\u0bbe\u0bbe",
		"é\u0323\u0301", "\u3099か\u3099"} {
		f.Add(s)
	}
	unicodeInit()
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		want, _ := appendStretch(nil, []byte(s), nil)
		got := appendNFC(nil, []byte(s))
		if !bytes.Equal(got, want) {
			t.Errorf("NFC of %+q = %+q, want %+q", s, got, want)
		}
		if isNFC([]byte(s)) && string(want) != s {
			t.Errorf("%+q is reported as NFC, but its NFC is %+q", s, want)
		}
		if again := appendNFC(nil, got); !bytes.Equal(again, got) {
			t.Errorf("NFC of %+q = %+q is not stable: %+q", s, got, again)
		}
	})
}
