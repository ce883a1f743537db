package endpoint

import "math/bits"

// Set is a bitset of slots: bit i&63 of word i>>6. Sets of one snapshot have
// equal length; a shorter one lacks the slots beyond its end.
type Set []uint64

// Has reports whether id is in s.
func (s Set) Has(id ID) bool {
	w := int(id >> 6)
	return w < len(s) && s[w]>>(id&63)&1 != 0
}

// Add puts id into s, which must be long enough.
func (s Set) Add(id ID) { s[id>>6] |= 1 << (id & 63) }

// Drop takes id out of s.
func (s Set) Drop(id ID) {
	if w := int(id >> 6); w < len(s) {
		s[w] &^= 1 << (id & 63)
	}
}

// And keeps in s what is in o too.
func (s Set) And(o Set) {
	n := copy0(s, o)
	for i := range n {
		s[i] &= o[i]
	}
}

// copy0 clears the words of s beyond o and returns the length they share.
func copy0(s, o Set) int {
	if len(o) >= len(s) {
		return len(s)
	}
	clear(s[len(o):])
	return len(o)
}

// Or adds what is in o to s; o must not be longer.
func (s Set) Or(o Set) {
	for i := range o {
		s[i] |= o[i]
	}
}

// AndNot takes out of s what is in o.
func (s Set) AndNot(o Set) {
	for i := range min(len(s), len(o)) {
		s[i] &^= o[i]
	}
}

// Len returns the number of slots in s.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty reports whether s has no slot.
func (s Set) Empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// AppendIDs appends the slots of s to dst in rising order.
func (s Set) AppendIDs(dst []ID) []ID {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			dst = append(dst, ID(i<<6|bits.TrailingZeros64(w)))
		}
	}
	return dst
}
