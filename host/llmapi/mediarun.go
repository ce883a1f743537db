package llmapi

import (
	"encoding/base64"
	"encoding/binary"
)

// Inline is what a body holds of media within itself: images, sounds and films in
// base64.
type Inline struct {
	Count  int // of them
	Bytes  int // of their base64 text
	Tokens int // an estimate of the tokens that a model makes of them
}

const (
	// inlineMin is the least length of base64 text that is taken for media: an image
	// of 768 bytes. Identifiers, hashes and signatures are shorter, and no text of a
	// language is so long without a space.
	inlineMin = 1024
	// MediaTokens is taken for one whose size is not known: an image of 0.8 megapixels.
	MediaTokens = 1000
	// pixelsPerToken: a token for 28 × 28 pixels, as the models of the Qwen-VL family
	// make them (Qwen2-VL, arXiv 2409.12191, §2.1). Others use from 14 × 14 to a fixed
	// number per image; the scheduler learns a factor for each model.
	pixelsPerToken = 28 * 28
	// minMediaTokens and maxMediaTokens bound the estimate of one image, as image
	// processors scale what is smaller or larger.
	minMediaTokens = 4
	maxMediaTokens = 16384
)

// InlineMedia finds the media in b, a JSON value. It reads all bytes of media, of which
// it decodes the first kilobytes of each image for its size, and few others: a run of
// inlineMin bytes has none at its end that is not base64, so text is passed in steps of
// nearly that length.
func InlineMedia(b []byte) (m Inline) {
	for i := 0; i+inlineMin <= len(b); { // a run can begin at i
		begin := i + inlineMin
		for begin > i && base64Byte[b[begin-1]] {
			begin--
		}
		if begin > i {
			i = begin // the byte before it is no base64
			continue
		}
		end := i + inlineMin
		for end < len(b) && base64Byte[b[end]] {
			end++
		}
		m.Count++
		m.Bytes += end - i
		m.Tokens += imageTokens(b[i:end])
		i = end + 1
	}
	return m
}

// base64Byte has the bytes of both base64 alphabets and their padding.
var base64Byte = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=") {
		t[c] = true
	}
	return t
}()

// headBytes are decoded of an image: a JPEG has its size behind tables and a
// thumbnail.
const headBytes = 48 << 10

// imageTokens estimates the tokens of one medium by its base64 text.
func imageTokens(text []byte) int {
	text = text[:min(len(text), headBytes)&^3]
	head := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, _ := base64.StdEncoding.Decode(head, text)
	w, h := ImageSize(head[:n])
	if w <= 0 || h <= 0 {
		return MediaTokens
	}
	return min(max((w*h+pixelsPerToken-1)/pixelsPerToken, minMediaTokens), maxMediaTokens)
}

// maxSide bounds a side in pixels: a header that says more is damaged.
const maxSide = 1 << 16

// ImageSize returns the width and height in pixels of an image by the first bytes of
// its file (PNG, JPEG, GIF, WebP), zeros if it is of another kind or they do not tell.
func ImageSize(b []byte) (w, h int) {
	switch {
	case len(b) >= 24 && string(b[:8]) == "\x89PNG\r\n\x1a\n" && string(b[12:16]) == "IHDR":
		w, h = int(binary.BigEndian.Uint32(b[16:])), int(binary.BigEndian.Uint32(b[20:]))
	case len(b) >= 10 && (string(b[:6]) == "GIF89a" || string(b[:6]) == "GIF87a"):
		w, h = int(binary.LittleEndian.Uint16(b[6:])), int(binary.LittleEndian.Uint16(b[8:]))
	case len(b) >= 30 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		w, h = webpSize(b)
	case len(b) >= 4 && b[0] == 0xff && b[1] == 0xd8:
		w, h = jpegSize(b)
	}
	if w <= 0 || h <= 0 || w > maxSide || h > maxSide {
		return 0, 0
	}
	return w, h
}

// webpSize reads the size of the three kinds of WebP (RFC 9649).
func webpSize(b []byte) (w, h int) {
	u24 := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
	switch string(b[12:16]) {
	case "VP8X":
		return u24(b[24:]) + 1, u24(b[27:]) + 1
	case "VP8L":
		v := binary.LittleEndian.Uint32(b[21:])
		return int(v&0x3fff) + 1, int(v>>14&0x3fff) + 1
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(b[26:])) & 0x3fff, int(binary.LittleEndian.Uint16(b[28:])) & 0x3fff
	}
	return 0, 0
}

// jpegSize finds the frame header (ITU-T T.81, B.2.2).
func jpegSize(b []byte) (w, h int) {
	for i := 2; i+9 <= len(b); {
		if b[i] != 0xff {
			return 0, 0
		}
		switch kind := b[i+1]; {
		case kind == 0xff:
			i++ // fill
			continue
		case kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc:
			return int(binary.BigEndian.Uint16(b[i+7:])), int(binary.BigEndian.Uint16(b[i+5:]))
		case kind == 0x01 || kind >= 0xd0 && kind <= 0xd9:
			i += 2
		default:
			i += 2 + int(binary.BigEndian.Uint16(b[i+2:]))
		}
	}
	return 0, 0
}
