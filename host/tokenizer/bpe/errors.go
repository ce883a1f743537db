package bpe

import "errors"

// ErrInvalidUTF8 is returned by Encode: no tokenizer has ids for invalid UTF-8.
var ErrInvalidUTF8 = errors.New("bpe: text is not valid UTF-8")

// UnsupportedError reports a part of a tokenizer that this package does not
// support, so that its ids would not be exact. Load and Parse return it.
type UnsupportedError struct {
	Part   string // member of tokenizer.json, such as "pre_tokenizer"
	Detail string // the unsupported content
}

func (e *UnsupportedError) Error() string {
	return "bpe: unsupported " + e.Part + ": " + e.Detail
}

func unsupported(part, detail string) error { return &UnsupportedError{part, detail} }
