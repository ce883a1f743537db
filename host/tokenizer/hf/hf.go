// Package hf encodes with the Hugging Face tokenizers library itself, for models
// that package bpe does not support. It requires a build with the tag hf, cgo
// and libtokenizers.a (scripts/deps-hf.sh builds it). Without the tag the package
// compiles, and every Load returns ErrNotBuilt.
//
// The underlying binding loses text without an error: it passes C strings, which
// end at the first NUL, replaces invalid UTF-8 and reports errors as an empty
// list of ids. Encode rejects such text with a specific error.
package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"
)

var (
	// ErrNotBuilt is returned by Load in a build without the tag hf.
	ErrNotBuilt = errors.New("hf: not part of this build: build with -tags hf")
	// ErrNUL is returned by Encode for text with a NUL byte.
	ErrNUL = errors.New("hf: text with a NUL byte cannot be encoded exactly")
	// ErrInvalidUTF8 is returned by Encode for text that is not UTF-8.
	ErrInvalidUTF8 = errors.New("hf: text is not valid UTF-8")
	// ErrEmpty is returned by Encode if the library returns no ids for text that
	// is not empty, which is how the library reports its own errors.
	ErrEmpty = errors.New("hf: no ids for text that is not empty")
	// ErrClosed is returned by Encode after Close.
	ErrClosed = errors.New("hf: tokenizer is closed")
)

// check returns the reason why text cannot be encoded exactly, or nil.
func check(text []byte) error {
	if bytes.IndexByte(text, 0) >= 0 {
		return ErrNUL
	}
	if !utf8.Valid(text) {
		return ErrInvalidUTF8
	}
	return nil
}

// readFile returns dir/tokenizer.json without truncation and padding, because
// the library would truncate and pad the ids; engines set both themselves.
func readFile(dir string) ([]byte, error) {
	file := filepath.Join(dir, "tokenizer.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("hf: %w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf("hf: %s: %v", file, err)
	}
	null := json.RawMessage("null")
	members["truncation"], members["padding"] = null, null
	if raw, err = json.Marshal(members); err != nil {
		return nil, fmt.Errorf("hf: %s: %v", file, err)
	}
	return raw, nil
}
