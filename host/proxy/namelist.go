package proxy

// nameList is a set of names of header fields and of their beginnings, in lower case
// and with dashes. It is immutable.
type nameList struct {
	names    []map[string]bool
	prefixes []string
	// shapes tell most other names by their first letter and their length: bit n of
	// shapes[c] is set if a name of n bytes that begins with the letter c may be listed,
	// bit 63 for 63 bytes and more.
	shapes [26]uint64
}

func newNameList(prefixes []string, names ...map[string]bool) *nameList {
	l := &nameList{names: names, prefixes: prefixes}
	for _, set := range names {
		for name := range set {
			l.shapes[name[0]-'a'] |= 1 << min(len(name), 63)
		}
	}
	for _, p := range prefixes {
		l.shapes[p[0]-'a'] |= ^uint64(0) << len(p)
	}
	return l
}

// may reports whether name may be listed, in whatever case. It has false positives.
func (l *nameList) may(name []byte) bool {
	if len(name) == 0 {
		return false
	}
	c := (name[0] | 0x20) - 'a'
	return c < 26 && l.shapes[c]>>min(len(name), 63)&1 != 0
}

// has reports whether low, in lower case and with dashes, is listed.
func (l *nameList) has(low []byte) bool {
	for _, set := range l.names {
		if set[string(low)] {
			return true
		}
	}
	for _, p := range l.prefixes {
		if len(low) >= len(p) && string(low[:len(p)]) == p {
			return true
		}
	}
	return false
}
