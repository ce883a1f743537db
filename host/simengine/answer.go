package simengine

import (
	"errors"
	"math/rand/v2"
)

// lexicon makes answers of lower-case words that are one token each, alone and
// wherever they stand between other words. It is immutable.
type lexicon struct {
	bare   []uint32 // a word without a space before it: begins a chat answer
	spaced []uint32 // a space and a word
	eos    uint32   // 0: none
}

// lexiconWords bounds how many words answers use: enough that answers differ,
// few enough that a large vocabulary is scanned in milliseconds.
const lexiconWords = 2048

var errNoWords = errors.New("simengine: the vocabulary has no words that are one token each")

// newLexicon picks the words of a vocabulary. A tokenizer that splits text
// before each " word" (all pre-tokenizers of the GPT-2 family do) gives the
// same ids for a text of them as were picked.
func newLexicon(v Vocabulary, eos uint32) (*lexicon, error) {
	l := &lexicon{eos: eos}
	var buf []uint32
	for id := range uint32(v.VocabSize()) {
		text := v.Token(id)
		dst := &l.bare
		if len(text) > 0 && text[0] == ' ' {
			dst = &l.spaced
		}
		if len(*dst) >= lexiconWords || !isWord(text) {
			continue
		}
		ids, err := v.Encode(buf[:0], text)
		if buf = ids; err == nil && len(ids) == 1 && ids[0] == id {
			*dst = append(*dst, id)
		}
	}
	if len(l.bare) == 0 || len(l.spaced) == 0 {
		return nil, errNoWords
	}
	return l, nil
}

// isWord reports whether text is two to twelve of a..z, after one space or none.
func isWord(text []byte) bool {
	if len(text) > 0 && text[0] == ' ' {
		text = text[1:]
	}
	if len(text) < 2 || len(text) > 12 {
		return false
	}
	for _, c := range text {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// answerLimits bound the length of an answer.
type answerLimits struct {
	mean     int // of the natural length
	maximum  int // max_tokens, or what the context leaves
	minimum  int // min_tokens
	noEnding bool
}

// answer appends the tokens of the answer to prompt, which they depend on alone,
// and reports whether it ends by itself. spaced answers begin with a space, so
// that they cannot merge with the prompt's last word.
func (l *lexicon) answer(dst, prompt []uint32, spaced bool, lim answerLimits) (tokens []uint32, stop bool) {
	rng := rand.New(rand.NewPCG(fingerprint(prompt), uint64(len(prompt))))
	n := max(lim.minimum, 1+lim.mean/2+rng.IntN(lim.mean))
	if lim.noEnding || n > lim.maximum {
		n = lim.maximum
	} else {
		stop = true
	}
	if stop && l.eos != 0 {
		n--
	}
	for i := range n {
		from := l.spaced
		if i == 0 && !spaced {
			from = l.bare
		}
		dst = append(dst, from[rng.IntN(len(from))])
	}
	if stop && l.eos != 0 {
		dst = append(dst, l.eos)
	}
	return dst, stop
}

// fingerprint is 64-bit FNV-1a over tokens.
func fingerprint(tokens []uint32) uint64 {
	h := uint64(14695981039346656037)
	for _, t := range tokens {
		h = (h ^ uint64(t)) * 1099511628211
	}
	return h
}
