// Package jsonscan finds where the parts of a JSON text end, without decoding
// them. It is the one scanner of the router: for request bodies, answers of
// engines and prompts.
//
// The grammar is RFC 8259, the same as encoding/json accepts: bytes that are not
// UTF-8 pass inside strings, numbers may be of any size. Functions take the offset
// of the first byte of a part and return the offset after its last. They allocate
// on a fault only, keep nothing of the text, and may be called concurrently.
package jsonscan

import "strconv"

// MaxDepth is the greatest nesting of a text: deeper than any real request,
// shallower than where the engines' own parsers give up (Python: about 1000).
const MaxDepth = 512

// Error is a fault of a text.
type Error struct {
	At   int    // offset of the fault; the length of the text if it ends early
	What string // for a client: names no part of the text
}

// Error implements error.
func (e *Error) Error() string { return "jsonscan: " + e.What + " at byte " + strconv.Itoa(e.At) }

func fault(at int, what string) *Error { return &Error{at, what} }
