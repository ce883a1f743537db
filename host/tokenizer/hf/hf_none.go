//go:build !hf

package hf

// Available reports whether the library is part of the build.
func Available() bool { return false }

// Tokenizer cannot be created in this build.
type Tokenizer struct{}

// Load returns ErrNotBuilt.
func Load(dir string) (*Tokenizer, error) { return nil, ErrNotBuilt }

// Encode returns ErrNotBuilt.
func (t *Tokenizer) Encode(dst []uint32, text []byte) ([]uint32, error) { return dst, ErrNotBuilt }

// Close does nothing.
func (t *Tokenizer) Close() error { return nil }
