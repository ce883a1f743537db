package bpe

import (
	"encoding/json"
	"fmt"
)

// file holds the parts of a tokenizer.json that affect ids.
type file struct {
	words         *words
	model         *model
	merges        []merge
	flags         modelFlags
	added         []addedToken
	normalizer    json.RawMessage
	preTokenizer  json.RawMessage
	postProcessor json.RawMessage
}

// ParseFiles is Parse with the text of tokenizer_config.json, or nil if there is
// none. The added_tokens_decoder of that file adds to the tokens of
// tokenizer.json and changes their flags as Hugging Face transformers does.
func ParseFiles(tokenizerJSON, config []byte) (*Tokenizer, error) {
	unicodeInit()
	f, err := readFile(tokenizerJSON)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{words: f.words, model: f.model}
	if t.family, err = parsePreTokenizer(f.preTokenizer); err != nil {
		return nil, err
	}
	if t.nfc, err = parseNormalizer(f.normalizer); err != nil {
		return nil, err
	}
	if err := f.flags.check(); err != nil {
		return nil, err
	}
	if t.prefix, t.suffix, err = parsePostProcessor(f.postProcessor); err != nil {
		return nil, err
	}
	more, err := parseConfig(config, t.family)
	if err != nil {
		return nil, err
	}
	if err := t.setAdded(f.added, more); err != nil {
		return nil, err
	}
	f.model.ignoreMerges = f.flags.IgnoreMerges
	if err := f.model.build(f.words, f.merges); err != nil {
		return nil, err
	}
	t.pool = &pool{make: func() *encoder { return newEncoder(t.model, t.family) }}
	t.size = max(t.size, len(f.words.size))
	for id := range f.words.rawID {
		t.size = max(t.size, int(id)+1)
	}
	return t, nil
}

// readFile walks tokenizer.json once.
func readFile(raw []byte) (*file, error) {
	f := &file{words: &words{}, model: &model{}}
	r := &reader{b: raw}
	seen := map[string]bool{}
	err := r.object(func(name string) error {
		if seen[name] {
			return r.fail(fmt.Sprintf("duplicate member %q", name))
		}
		seen[name] = true
		if name == "model" {
			return f.readModel(r)
		}
		v, err := r.value()
		if err != nil {
			return err
		}
		return f.member(name, v)
	})
	if err != nil {
		return nil, err
	}
	if r.peek(); r.p != len(raw) {
		return nil, r.fail("text after the end")
	}
	if !seen["model"] {
		return nil, unsupported("file", "no model")
	}
	return f, nil
}

func (f *file) member(name string, v json.RawMessage) error {
	switch name {
	case "added_tokens":
		if isNull(v) {
			return nil
		}
		if err := strict(v, &f.added); err != nil {
			return unsupported(name, err.Error())
		}
	case "normalizer":
		f.normalizer = v
	case "pre_tokenizer":
		f.preTokenizer = v
	case "post_processor":
		f.postProcessor = v
	case "version":
		var s string
		if err := json.Unmarshal(v, &s); err != nil || s != "1.0" {
			return unsupported(name, string(v[:min(len(v), 40)]))
		}
	case "decoder", "truncation", "padding": // engines set the last two
	default:
		return unsupported("member", fmt.Sprintf("%q", name))
	}
	return nil
}

// readModel reads "model". It reads the vocabulary before the merges, whatever
// their order in the file.
func (f *file) readModel(r *reader) error {
	flags := map[string]json.RawMessage{}
	var merges *reader
	vocab := false
	err := r.object(func(name string) error {
		if name == "vocab" && !vocab {
			vocab = true
			return f.words.read(r)
		}
		if name == "merges" && merges == nil {
			merges = &reader{b: r.b, p: r.p}
			if vocab {
				ms, err := f.model.readMerges(r, f.words)
				f.merges = ms
				return err
			}
			_, err := r.value()
			return err
		}
		if _, twice := flags[name]; twice || name == "vocab" || name == "merges" {
			return r.fail(fmt.Sprintf("duplicate member %q", name))
		}
		v, err := r.value()
		flags[name] = v
		return err
	})
	if err != nil {
		return err
	}
	raw, err := json.Marshal(flags)
	if err != nil {
		return unsupported("model", err.Error())
	}
	if err := strict(raw, &f.flags); err != nil {
		return unsupported("model", err.Error())
	}
	if !vocab || merges == nil {
		return unsupported("model", fmt.Sprintf("type %q without vocabulary or merges", f.flags.Kind))
	}
	if f.merges == nil {
		f.merges, err = f.model.readMerges(merges, f.words)
	}
	return err
}
