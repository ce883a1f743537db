package bpe

import "errors"

// ErrInvalidUTF8 is returned by Encode: no tokenizer has ids for such text.
var ErrInvalidUTF8 = errors.New("bpe: text is not valid UTF-8")

// UnsupportedError says that a tokenizer has a part that this package does
// not know, so that its ids would not be exact. Load and Parse return it.
type UnsupportedError struct {
	Part   string // member of tokenizer.json, as "pre_tokenizer"
	Detail string // what is in it
}

func (e *UnsupportedError) Error() string {
	return "bpe: unsupported " + e.Part + ": " + e.Detail
}

func unsupported(part, detail string) error { return &UnsupportedError{part, detail} }
