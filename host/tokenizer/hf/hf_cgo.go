//go:build hf

package hf

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/daulet/tokenizers"
)

// Available reports whether the library is part of the build.
func Available() bool { return true }

// Tokenizer encodes with the library. It is safe for concurrent use.
type Tokenizer struct {
	mu     sync.RWMutex // held for reading while encoding, for writing by Close
	lib    *tokenizers.Tokenizer
	closed bool
}

// Load reads dir/tokenizer.json. Errors name the file. Close frees the library's
// memory, as does garbage collection of the Tokenizer.
func Load(dir string) (*Tokenizer, error) {
	raw, err := readFile(dir)
	if err != nil {
		return nil, err
	}
	lib, err := tokenizers.FromBytes(raw)
	if err != nil {
		return nil, fmt.Errorf("hf: %s/tokenizer.json: %v", dir, err)
	}
	t := &Tokenizer{lib: lib}
	runtime.SetFinalizer(t, (*Tokenizer).Close)
	return t, nil
}

// Encode appends the ids of text to dst. It recognises added tokens and adds no
// BOS or EOS. Errors: ErrNUL, ErrInvalidUTF8, ErrEmpty, ErrClosed.
func (t *Tokenizer) Encode(dst []uint32, text []byte) ([]uint32, error) {
	if len(text) == 0 {
		return dst, nil
	}
	if err := check(text); err != nil {
		return dst, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return dst, ErrClosed
	}
	ids := t.lib.EncodeWithOptions(string(text), false).IDs
	if len(ids) == 0 {
		return dst, ErrEmpty
	}
	return append(dst, ids...), nil
}

// Close waits for running calls of Encode and frees the library's memory. It may
// be called more than once; the error is always nil.
func (t *Tokenizer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		runtime.SetFinalizer(t, nil)
		return t.lib.Close()
	}
	return nil
}
