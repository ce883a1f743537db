package wasm

import (
	"os"
	"testing"
)

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRewriteFuel_refuses checks that unknown code is not rewritten.
func TestRewriteFuel_refuses(t *testing.T) {
	body := func(code ...byte) []byte {
		out := []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x03\x01\x00\x01\x0a")
		fn := append([]byte{0}, code...)
		return append(append(out, byte(len(fn)+2), 1, byte(len(fn))), fn...)
	}
	for name, code := range map[string][]byte{
		"return_call":      body(0x12, 0, 0x0b),
		"atomic":           body(0xfe, 0x03, 0, 0x0b),
		"relaxed simd":     body(0xfd, 0x80, 0x02, 0x0b),
		"simd gap":         body(0xfd, 0x9a, 0x01, 0x0b),
		"throw":            body(0x08, 0, 0x0b),
		"gc":               body(0xfb, 0, 0x0b),
		"misc 18":          body(0xfc, 18, 0x0b),
		"no end":           body(0x01),
		"code behind end":  body(0x0b, 0x01),
		"long number":      body(0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0x1a, 0x0b),
		"br_table too big": body(0x0e, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0x0b),
	} {
		m, err := parseModule(code)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := rewriteFuel(m, rewriteOptions{pages: 1}); err == nil {
			t.Errorf("%s was rewritten", name)
		}
	}
	if m, err := parseModule(body(0x01, 0x0b)); err != nil {
		t.Error(err)
	} else if _, err := rewriteFuel(m, rewriteOptions{pages: 1}); err != nil {
		t.Errorf("nop: %v", err)
	}
}

func TestParseModule_refuses(t *testing.T) {
	head := "\x00asm\x01\x00\x00\x00"
	for name, code := range map[string]string{
		"empty":            "",
		"component":        "\x00asm\x0d\x00\x01\x00",
		"tag section":      head + "\x0d\x01\x00",
		"sections swapped": head + "\x03\x01\x00\x01\x01\x00",
		"section twice":    head + "\x01\x01\x00\x01\x01\x00",
		"short section":    head + "\x01\x05\x00",
		"type form":        head + "\x01\x02\x01\x5f",
		"two memories":     head + "\x05\x05\x02\x00\x01\x00\x01",
		"unknown type":     head + "\x03\x02\x01\x00",
		"trailing":         head + "\x01\x02\x00\x00",
	} {
		if _, err := parseModule([]byte(code)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
