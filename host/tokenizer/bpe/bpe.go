// Package bpe is a byte-level BPE tokenizer in pure Go that gives the ids of
// Hugging Face tokenizers 0.22 and 0.23, id for id.
//
// Load reads a model's tokenizer.json. It supports the pre-tokenizers of the
// Llama-3, Qwen, GPT-4o/gpt-oss and GPT-2 families, normal form C and all flags
// of added tokens. It rejects everything else with an *UnsupportedError, so the
// ids are either exact or not available.
//
// Text is encoded in four steps. Added tokens with normalized=false split it;
// the pieces are normalized; the other added tokens split them again; and each
// piece is cut into pre-tokens by a hand-written scanner, and each pre-token is
// encoded separately. Most pre-tokens are one token, found by one look-up. The
// others come from a small cache or from a walk that takes the longest token
// compatible with its neighbour (see model.valid), in time proportional to the
// length for every text.
//
// The package has its own Unicode tables, independent of the Go version: the
// pattern's classes are those of Unicode 16, and NFC uses the older tables of
// Hugging Face. scripts/gen_unicode.py generates both.
package bpe

import (
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Tokenizer encodes text. It is immutable and safe for concurrent use. Its
// tables take 7 to 31 MB, and each encoder in concurrent use takes another
// 2 MiB.
type Tokenizer struct {
	family   Family
	nfc      bool
	words    *words
	model    *model
	added    []addedToken      // in order of definition, ids resolved
	addedID  map[string]uint32 // content → id
	tokenOf  map[uint32]string // id → content of added tokens
	raw      *addedSet         // normalized=false
	normal   *addedSet         // normalized=true, in normalized form
	lineCuts bool              // Cut can cut at line ends
	size     int
	prefix   []uint32
	suffix   []uint32
	pool     *pool
}

// Load reads dir/tokenizer.json and the added tokens of
// dir/tokenizer_config.json, if that file exists. Errors name the file. An
// *UnsupportedError names the part of the tokenizer that is not supported.
func Load(dir string) (*Tokenizer, error) {
	file := filepath.Join(dir, "tokenizer.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, &fileError{"", err}
	}
	config, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil && !os.IsNotExist(err) {
		return nil, &fileError{"", err}
	}
	t, err := ParseFiles(raw, config)
	if err != nil {
		return nil, &fileError{dir, err}
	}
	return t, nil
}

// fileError adds the folder to an error about one of its files.
type fileError struct {
	dir string
	err error
}

func (e *fileError) Error() string {
	s := strings.TrimPrefix(e.err.Error(), "bpe: ")
	if e.dir == "" {
		return "bpe: " + s
	}
	return "bpe: " + e.dir + ": " + s
}

func (e *fileError) Unwrap() error { return e.err }

// Parse reads the text of a tokenizer.json and does not retain it.
func Parse(tokenizerJSON []byte) (*Tokenizer, error) { return ParseFiles(tokenizerJSON, nil) }

// Encode appends the ids of text to dst. It recognises added tokens and adds no
// BOS or EOS (see Affixes). The only error is ErrInvalidUTF8. Encode may write
// to memory of dst beyond its length. It is safe for concurrent use with
// different dst.
func (t *Tokenizer) Encode(dst []uint32, text []byte) ([]uint32, error) {
	if !utf8.Valid(text) {
		return dst, ErrInvalidUTF8
	}
	e := t.pool.get()
	dst = t.encodeRaw(e, dst, text)
	t.pool.put(e)
	return dst, nil
}

// encodeRaw splits text at the added tokens that match the raw text.
func (t *Tokenizer) encodeRaw(e *encoder, dst []uint32, text []byte) []uint32 {
	if len(t.raw.tokens) == 0 {
		return t.encodePiece(e, dst, text)
	}
	f := t.raw.find(text)
	last := 0
	for {
		m, ok := f.match()
		if !ok {
			return t.encodePiece(e, dst, text[last:])
		}
		if m.discarded {
			continue
		}
		if last < m.start {
			dst = t.encodePiece(e, dst, text[last:m.start])
		}
		dst = append(dst, m.token.ID)
		last = m.end
	}
}

// encodePiece normalizes a piece and splits it at the other added tokens.
func (t *Tokenizer) encodePiece(e *encoder, dst []uint32, piece []byte) []uint32 {
	if t.nfc && !isNFC(piece) {
		e.norm = appendNFC(e.norm[:0], piece)
		piece = e.norm
		if cap(e.norm) > 1<<20 {
			e.norm = nil // do not retain the memory of one large text
		}
	}
	if len(t.normal.tokens) == 0 {
		return e.encode(dst, piece)
	}
	f := t.normal.find(piece)
	last := 0
	for {
		m, ok := f.match()
		if !ok {
			return e.encode(dst, piece[last:])
		}
		if m.discarded {
			continue
		}
		if last < m.start {
			dst = e.encode(dst, piece[last:m.start])
		}
		dst = append(dst, m.token.ID)
		last = m.end
	}
}

// ID returns the id of an added token by its content, or of a vocabulary entry
// as the file spells it ("Ġthe"). The second look-up is slow.
func (t *Tokenizer) ID(token string) (uint32, bool) {
	if id, ok := t.addedID[token]; ok {
		return id, true
	}
	return t.words.lookup(token)
}

// Token returns the bytes of token id, or nil if there is no such id. The
// caller must not modify them.
func (t *Tokenizer) Token(id uint32) []byte {
	if s, ok := t.tokenOf[id]; ok {
		return []byte(s)
	}
	if int64(id) < int64(len(t.words.size)) && t.words.size[id] > 0 {
		return t.words.at(id)
	}
	if s, ok := t.words.rawID[id]; ok {
		return []byte(s)
	}
	return nil
}

// VocabSize is the greatest id plus one.
func (t *Tokenizer) VocabSize() int { return t.size }

// Family is the pre-tokenizer family that was recognised.
func (t *Tokenizer) Family() Family { return t.family }

// Affixes returns the ids that the post-processor puts before and after a text
// that is encoded with special tokens: BOS and EOS, usually none. The caller
// must not modify them. A chat template writes its own BOS.
func (t *Tokenizer) Affixes() (prefix, suffix []uint32) { return t.prefix, t.suffix }

// TableBytes is the size of the shared tables in bytes.
func (t *Tokenizer) TableBytes() int {
	return t.model.tableBytes() + len(t.words.text) + 5*len(t.words.size)
}
