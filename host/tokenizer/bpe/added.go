package bpe

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// Added tokens follow Hugging Face tokenizers (added_vocabulary.rs). Tokens
// with normalized=false are matched in the raw text. Each piece between them
// is normalized separately, and the other tokens are matched in the normalized
// pieces. Both passes take the leftmost, longest match.

// addedToken is one entry of "added_tokens".
type addedToken struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// addedSet finds the occurrences of a set of added tokens in text.
type addedSet struct {
	tokens []addedToken
	nodes  []addedNode // [0] is the root
	first  [256]bool   // first bytes of the tokens
	firsts []byte      // the first bytes as a list, if few enough for one search each
	maxLen int         // length in bytes of the longest token

	singleWord, rstrip bool // set if any token has the flag
}

// addedNode is a node of the trie. Its children are consecutive and sorted by
// label.
type addedNode struct {
	label    byte
	child    uint32 // first child
	children uint16
	token    int32 // index in tokens, or -1
}

// newAddedSet builds a set from tokens whose Content is the text to find and
// is not empty. If texts are equal, the first token wins.
func newAddedSet(tokens []addedToken) *addedSet {
	s := &addedSet{tokens: tokens, nodes: []addedNode{{token: -1}}}
	order := make([]int, len(tokens))
	for i, t := range tokens {
		order[i] = i
		if c := t.Content[0]; !s.first[c] {
			s.first[c] = true
			s.firsts = append(s.firsts, c)
		}
		s.maxLen = max(s.maxLen, len(t.Content))
		s.singleWord = s.singleWord || t.SingleWord
		s.rstrip = s.rstrip || t.RStrip
	}
	if len(s.firsts) > 3 {
		s.firsts = nil
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tokens[a].Content, tokens[b].Content) })
	s.build(0, order, 0)
	return s
}

// build creates the children of a node from the tokens below it, which are
// sorted and share their first depth bytes.
func (s *addedSet) build(node uint32, order []int, depth int) {
	for len(order) > 0 && len(s.tokens[order[0]].Content) == depth {
		if s.nodes[node].token < 0 {
			s.nodes[node].token = int32(order[0])
		}
		order = order[1:]
	}
	var ends []int
	for i := range order {
		if i+1 == len(order) || s.tokens[order[i]].Content[depth] != s.tokens[order[i+1]].Content[depth] {
			ends = append(ends, i+1)
		}
	}
	child := uint32(len(s.nodes))
	s.nodes[node].child, s.nodes[node].children = child, uint16(len(ends))
	st := 0
	for _, end := range ends {
		s.nodes = append(s.nodes, addedNode{label: s.tokens[order[st]].Content[depth], token: -1})
		st = end
	}
	st = 0
	for i, end := range ends {
		s.build(child+uint32(i), order[st:end], depth+1)
		st = end
	}
}

// step returns the child of node for c, or 0 if there is none.
func (s *addedSet) step(node uint32, c byte) uint32 {
	n := &s.nodes[node]
	for i := n.child; i < n.child+uint32(n.children); i++ {
		if s.nodes[i].label == c {
			return i
		}
	}
	return 0
}

// match returns the longest token that is a prefix of text, or nil.
func (s *addedSet) match(text []byte) *addedToken {
	best := int32(-1)
	node := uint32(0)
	for _, c := range text {
		if node = s.step(node, c); node == 0 {
			break
		}
		if t := s.nodes[node].token; t >= 0 {
			best = t
		}
	}
	if best < 0 {
		return nil
	}
	return &s.tokens[best]
}

// unfinished reports whether appending text could turn text into a string that
// begins with a token.
func (s *addedSet) unfinished(text []byte) bool {
	node := uint32(0)
	for _, c := range text {
		if node = s.step(node, c); node == 0 {
			return false
		}
	}
	return s.nodes[node].children > 0
}

// finder returns the matches of a set in a text from left to right.
type finder struct {
	set  *addedSet
	text []byte
	pos  int    // the search continues here
	last int    // end of the last accepted match, including stripped space
	next [3]int // where set.firsts occur at or after pos; -1: not searched
}

// found is a match. Text before start that no earlier match covers is a piece.
type found struct {
	token      *addedToken
	start, end int // including the space that lstrip and rstrip remove
	at, to     int // the token's text alone
	discarded  bool
}

func (s *addedSet) find(text []byte) finder {
	return finder{set: s, text: text, next: [3]int{-1, -1, -1}}
}

// raw returns the next match and ignores the flags.
func (f *finder) raw() (at int, t *addedToken) {
	for {
		at := f.candidate()
		if at >= len(f.text) {
			f.pos = len(f.text)
			return at, nil
		}
		if t := f.set.match(f.text[at:]); t != nil {
			f.pos = at + len(t.Content)
			return at, t
		}
		f.pos = at + 1
	}
}

// candidate returns the next position that holds the first byte of a token.
func (f *finder) candidate() int {
	if f.set.firsts == nil {
		i := f.pos
		for i < len(f.text) && !f.set.first[f.text[i]] {
			i++
		}
		return i
	}
	best := len(f.text)
	for k, c := range f.set.firsts {
		if f.next[k] < f.pos {
			f.next[k] = indexFrom(f.text, f.pos, c)
		}
		best = min(best, f.next[k])
	}
	return best
}

// match returns the next match; ok is false at the end of the text. It also
// returns matches that single_word discards, because they hide overlapping ones.
func (f *finder) match() (m found, ok bool) {
	at, t := f.raw()
	if t == nil {
		return found{}, false
	}
	m = found{token: t, start: at, end: f.pos, at: at, to: f.pos}
	if t.SingleWord && (wordBefore(f.text[:m.start]) || wordAfter(f.text[m.end:])) {
		m.discarded = true
		return m, true
	}
	if t.LStrip {
		m.start = max(spaceBefore(f.text, m.start), f.last)
	}
	if t.RStrip {
		m.end = spaceAfter(f.text, m.end)
	}
	f.last = m.end
	return m, true
}

func isWord(r rune) bool { return wordCP[r>>6]>>(r&63)&1 != 0 }

func wordBefore(s []byte) bool {
	r, n := utf8.DecodeLastRune(s)
	return n > 0 && isWord(r)
}

func wordAfter(s []byte) bool {
	r, n := utf8.DecodeRune(s)
	return n > 0 && isWord(r)
}

// spaceBefore returns the start of the run of \s that ends at i.
func spaceBefore(s []byte, i int) int {
	for i > 0 {
		_, w := utf8.DecodeLastRune(s[:i])
		if k, _ := class(s, i-w); k&cS == 0 {
			break
		}
		i -= w
	}
	return i
}

// spaceAfter returns the end of the run of \s that begins at i.
func spaceAfter(s []byte, i int) int {
	for i < len(s) {
		k, w := class(s, i)
		if k&cS == 0 {
			break
		}
		i += w
	}
	return i
}
