package llmapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"
)

// noise returns an image that does not compress.
func noise(w, h int) image.Image {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(1, 2))
	for y := range h {
		for x := range w {
			m.Set(x, y, color.RGBA{uint8(r.Uint32()), uint8(r.Uint32()), uint8(r.Uint32()), 255})
		}
	}
	return m
}

func TestImageSize(t *testing.T) {
	m := noise(640, 320)
	files := map[string][]byte{}
	var p, j, g bytes.Buffer
	if err := png.Encode(&p, m); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&j, m, nil); err != nil {
		t.Fatal(err)
	}
	if err := gif.Encode(&g, m, nil); err != nil {
		t.Fatal(err)
	}
	files["png"], files["jpeg"], files["gif"] = p.Bytes(), j.Bytes(), g.Bytes()
	webp := func(kind string, rest ...byte) []byte {
		return append([]byte("RIFF....WEBP"+kind+"...."), append(rest, make([]byte, 20)...)...)
	}
	files["vp8x"] = webp("VP8X", 0, 0, 0, 0, 0x7f, 2, 0, 0x3f, 1, 0)
	files["vp8l"] = webp("VP8L", 0x2f, 0x7f, 0xc2, 0x4f, 0)
	files["vp8"] = webp("VP8 ", 0, 0, 0, 0x9d, 1, 0x2a, 0x80, 2, 0x40, 1)
	for kind, b := range files {
		if w, h := ImageSize(b); w != 640 || h != 320 {
			t.Errorf("%s: %d × %d", kind, w, h)
		}
	}
	for _, b := range []string{"", "hello", "\x89PNG\r\n\x1a\n", "GIF89a", "\xff\xd8\xff\xe0\x00\x02"} {
		if w, h := ImageSize([]byte(b)); w != 0 || h != 0 {
			t.Errorf("%q: %d × %d", b, w, h)
		}
	}
}

func TestInlineMedia(t *testing.T) {
	var p bytes.Buffer
	if err := png.Encode(&p, noise(280, 140)); err != nil {
		t.Fatal(err)
	}
	image := base64.StdEncoding.EncodeToString(p.Bytes())
	text := strings.Repeat("some words of a prompt, and more of them. ", 400)
	body := fmt.Sprintf(`{"messages":[{"content":[{"text":%q},{"url":"data:image/png;base64,%s"},{"data":%q}]}]}`, text,
		image, strings.Repeat("QUJD", 500))
	m := InlineMedia([]byte(body))
	if m.Count != 2 || m.Bytes != len(image)+2000 || m.Tokens != 50+MediaTokens {
		t.Errorf("got %+v, image has %d bytes", m, len(image))
	}
	if m := InlineMedia([]byte(text)); m != (Inline{}) {
		t.Errorf("text: %+v", m)
	}
}

func FuzzInlineMedia(f *testing.F) {
	f.Add([]byte("data:image/png;base64," + strings.Repeat("iVBORw0KGgo", 100)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m := InlineMedia(b); m.Bytes > len(b) || m.Count*inlineMin > m.Bytes {
			t.Errorf("got %+v of %d bytes", m, len(b))
		}
		ImageSize(b)
	})
}

// TestInlineMedia_runs compares InlineMedia with a walk of every byte, on runs of lengths
// around the least one.
func TestInlineMedia_runs(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for range 2000 {
		var b []byte
		for range r.IntN(8) {
			n := [...]int{0, 1, 40, inlineMin - 1, inlineMin, inlineMin + 1, 3 * inlineMin}[r.IntN(7)]
			b = append(b, bytes.Repeat([]byte("A"), n)...)
			b = append(b, bytes.Repeat([]byte(" "), r.IntN(3))...)
		}
		count, sum := 0, 0
		for run := range bytes.FieldsSeq(b) {
			if len(run) >= inlineMin {
				count, sum = count+1, sum+len(run)
			}
		}
		if m := InlineMedia(b); m.Count != count || m.Bytes != sum {
			t.Fatalf("got %d runs of %d bytes, want %d of %d, in %q", m.Count, m.Bytes, count, sum, b)
		}
	}
}
