package bpe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// parseConfig reads the members of tokenizer_config.json that affect ids: added
// tokens, sorted by id, and add_prefix_space.
func parseConfig(raw []byte, f Family) ([]addedToken, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var c struct {
		Added          map[string]addedToken `json:"added_tokens_decoder"`
		AddPrefixSpace bool                  `json:"add_prefix_space"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("bpe: tokenizer_config.json: %v", err)
	}
	if c.AddPrefixSpace && f == GPT2 {
		return nil, unsupported("tokenizer_config.json", "add_prefix_space")
	}
	var added []addedToken
	for key, t := range c.Added {
		id, err := strconv.ParseUint(key, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("bpe: tokenizer_config.json: added token with id %q", key)
		}
		t.ID = uint32(id)
		added = append(added, t)
	}
	slices.SortFunc(added, func(a, b addedToken) int { return int(int64(a.ID) - int64(b.ID)) })
	return added, nil
}

// setAdded adds the tokens in order, as Hugging Face's add_tokens does, and
// builds the two sets. It verifies the ids in the files: the library gives a
// token the id that the vocabulary has for it, or the next free one. It rejects
// a token that is listed twice with different flags, because the flags that
// apply depend on the library's version.
func (t *Tokenizer) setAdded(tokens, more []addedToken) error {
	t.addedID, t.tokenOf = map[string]uint32{}, map[uint32]string{}
	known := map[string]addedToken{}
	for k, a := range slices.Concat(tokens, more) {
		part := "added_tokens"
		if k >= len(tokens) {
			part = "tokenizer_config.json"
		}
		if a.Content == "" {
			continue
		}
		if b, ok := known[a.Content]; ok {
			a.Special = b.Special
			if a != b {
				return unsupported(part, fmt.Sprintf("%q is listed twice, with id %d and %d or other flags", a.Content, b.ID, a.ID))
			}
			continue
		}
		id, ok := t.words.key(a.Content)
		if !ok {
			id = t.freeID()
		}
		if id != a.ID {
			return unsupported(part, fmt.Sprintf("%q has id %d in the file, %d by the vocabulary", a.Content, a.ID, id))
		}
		known[a.Content] = a
		t.addedID[a.Content], t.tokenOf[id] = id, a.Content
		t.size = max(t.size, int(id)+1)
		t.added = append(t.added, a)
	}
	t.sortAdded()
	return nil
}

// sortAdded divides the added tokens into the two sets. Special tokens come
// first: if two tokens have the same normalized text, the first one wins.
func (t *Tokenizer) sortAdded() {
	var raw, normal []addedToken
	for _, special := range [2]bool{true, false} {
		for _, a := range t.added {
			switch {
			case a.Special != special:
			case !a.Normalized:
				raw = append(raw, a)
			default:
				if t.nfc {
					a.Content = string(appendNFC(nil, []byte(a.Content)))
				}
				normal = append(normal, a)
			}
		}
	}
	t.raw, t.normal = newAddedSet(raw), newAddedSet(normal)
	t.lineCuts = lineCutsHold(normal)
}

// freeID is the id of an added token that is not in the vocabulary.
func (t *Tokenizer) freeID() uint32 {
	id := uint32(t.words.count)
	for a := range t.tokenOf {
		id = max(id, a+1)
	}
	return id
}
