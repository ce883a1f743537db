package bpe

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Family names a pre-tokenizer that this package has a scanner for.
type Family string

// The families; all are byte-level.
const (
	Llama3 Family = "llama3" // cl100k pattern, numbers of at most three digits
	Qwen   Family = "qwen"   // cl100k pattern, single digits
	O200k  Family = "o200k"  // GPT-4o, gpt-oss
	GPT2   Family = "gpt2"   // the pattern inside ByteLevel
)

// patterns are the regular expressions of the families that have a Split. They
// are compared literally: another text may be equivalent, but only these are
// verified.
var patterns = map[string]Family{
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: Llama3,
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: Qwen,
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`: O200k,
}

// preTokenizer holds any of the supported kinds; Kind selects.
type preTokenizer struct {
	Kind           string            `json:"type"`
	PreTokenizers  []json.RawMessage `json:"pretokenizers"`
	Pattern        map[string]string `json:"pattern"`
	Behavior       string            `json:"behavior"`
	Invert         bool              `json:"invert"`
	AddPrefixSpace bool              `json:"add_prefix_space"`
	TrimOffsets    bool              `json:"trim_offsets"` // affects offsets only
	UseRegex       *bool             `json:"use_regex"`    // absent: true
}

func (p *preTokenizer) byteLevel(regex bool) bool {
	return p.Kind == "ByteLevel" && !p.AddPrefixSpace && (p.UseRegex == nil || *p.UseRegex) == regex
}

// parsePreTokenizer recognises the family: ByteLevel alone, or a Split with a
// known pattern followed by ByteLevel without its own pattern.
func parsePreTokenizer(raw json.RawMessage) (Family, error) {
	const part = "pre_tokenizer"
	var p preTokenizer
	if err := strict(raw, &p); err != nil {
		return "", unsupported(part, err.Error())
	}
	if p.byteLevel(true) {
		return GPT2, nil
	}
	if p.Kind != "Sequence" {
		return "", unsupported(part, describe(&p))
	}
	if len(p.PreTokenizers) != 2 {
		return "", unsupported(part, fmt.Sprintf("sequence of %d", len(p.PreTokenizers)))
	}
	var split, level preTokenizer
	if err := strict(p.PreTokenizers[0], &split); err != nil {
		return "", unsupported(part, err.Error())
	}
	if err := strict(p.PreTokenizers[1], &level); err != nil {
		return "", unsupported(part, err.Error())
	}
	if split.Kind != "Split" || !(split.Behavior == "Isolated" && !split.Invert ||
		split.Behavior == "Removed" && split.Invert) {
		return "", unsupported(part, describe(&split))
	}
	f, ok := patterns[split.Pattern["Regex"]]
	if !ok || len(split.Pattern) != 1 {
		return "", unsupported(part, fmt.Sprintf("pattern %q", split.Pattern))
	}
	if !level.byteLevel(false) {
		return "", unsupported(part, describe(&level))
	}
	return f, nil
}

func describe(p *preTokenizer) string {
	s := fmt.Sprintf("%q", p.Kind)
	if p.AddPrefixSpace {
		s += " with add_prefix_space"
	}
	if p.Behavior != "" {
		s += fmt.Sprintf(" with behavior %q, invert %v", p.Behavior, p.Invert)
	}
	return s
}

// parseNormalizer reports whether text is normalized to NFC. It supports null,
// NFC and a sequence of at most one NFC.
func parseNormalizer(raw json.RawMessage) (nfc bool, err error) {
	if isNull(raw) {
		return false, nil
	}
	var n struct {
		Kind        string            `json:"type"`
		Normalizers []json.RawMessage `json:"normalizers"`
	}
	if err := strict(raw, &n); err != nil {
		return false, unsupported("normalizer", err.Error())
	}
	switch {
	case n.Kind == "NFC":
		return true, nil
	case n.Kind == "Sequence" && len(n.Normalizers) == 0:
		return false, nil
	case n.Kind == "Sequence" && len(n.Normalizers) == 1:
		return parseNormalizer(n.Normalizers[0])
	}
	return false, unsupported("normalizer", fmt.Sprintf("%q", n.Kind))
}

// modelFlags are the members of "model" except the vocabulary and the merges.
type modelFlags struct {
	Kind         string   `json:"type"` // absent in old files
	Dropout      *float64 `json:"dropout"`
	Unknown      *string  `json:"unk_token"` // every byte is a token, so none is unknown
	Prefix       string   `json:"continuing_subword_prefix"`
	Suffix       string   `json:"end_of_word_suffix"`
	FuseUnknown  bool     `json:"fuse_unk"`
	ByteFallback bool     `json:"byte_fallback"`
	IgnoreMerges bool     `json:"ignore_merges"`
}

func (f *modelFlags) check() error {
	switch {
	case f.Kind != "" && f.Kind != "BPE":
		return unsupported("model", fmt.Sprintf("type %q", f.Kind))
	case f.Dropout != nil && *f.Dropout != 0:
		return unsupported("model", "dropout")
	case f.Prefix != "":
		return unsupported("model", "continuing_subword_prefix")
	case f.Suffix != "":
		return unsupported("model", "end_of_word_suffix")
	}
	return nil
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// strict decodes raw and rejects members that are not fields of v.
func strict(raw json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// PreTokenEnd returns the end of the pre-token that begins at text[i], by the
// family's pattern. text is valid UTF-8, and i is the start of a pre-token.
func (f Family) PreTokenEnd(text []byte, i int) int {
	unicodeInit()
	switch f {
	case Llama3:
		return cl100kEnd(text, i, 3)
	case Qwen:
		return cl100kEnd(text, i, 1)
	case O200k:
		return o200kEnd(text, i)
	default:
		return gpt2End(text, i)
	}
}

// Pattern returns the regular expression of the family's Split, or "" for GPT2.
func (f Family) Pattern() string {
	for p, g := range patterns {
		if g == f {
			return p
		}
	}
	return ""
}
