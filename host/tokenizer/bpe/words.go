package bpe

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

const (
	maxTokenBytes = 254     // a length fits a byte, with room for one more
	maxTokens     = 1 << 20 // ids and ranks have 20 bits in the tables
)

// words holds the entries of the vocabulary as the bytes they represent.
type words struct {
	text  []byte            // all entries, one after the other
	start []uint32          // [ids] offset of an entry in text
	size  []uint8           // [ids] length of an entry in bytes, 0: no such id
	raw   map[string]uint32 // entries that are not byte-level
	rawID map[uint32]string
	count int      // number of entries, including raw ones
	slots []uint64 // while loading: open addressing, hash in the upper half, id+1 in the lower
}

func (w *words) at(id uint32) []byte {
	st := w.start[id]
	return w.text[st : st+uint32(w.size[id]) : st+uint32(w.size[id])]
}

// read reads the "vocab" object. It does not retain [r.b].
func (w *words) read(r *reader) error {
	w.raw, w.rawID = map[string]uint32{}, map[uint32]string{}
	w.text = make([]byte, 0, len(r.b)/8)
	w.slots = make([]uint64, 1<<12)
	return r.list('{', '}', func() error { return w.readEntry(r) })
}

func (w *words) readEntry(r *reader) error {
	st := len(w.text)
	out, raw, ok, err := r.byteLevel(w.text)
	if err != nil {
		return err
	}
	if err := r.want(':'); err != nil {
		return err
	}
	id, err := r.number()
	if err != nil {
		return err
	}
	if id >= maxTokens {
		return unsupported("vocabulary", fmt.Sprintf("id %d, at most %d", id, maxTokens-1))
	}
	w.count++
	if !ok || len(out) == st {
		w.raw[raw] = id
		w.rawID[id] = raw
		return nil
	}
	if len(out)-st > maxTokenBytes {
		return unsupported("vocabulary", fmt.Sprintf("token %d of %d bytes, at most %d", id, len(out)-st, maxTokenBytes))
	}
	for int(id) >= len(w.start) {
		w.start, w.size = append(w.start, 0), append(w.size, 0)
	}
	if w.size[id] != 0 {
		return unsupported("vocabulary", fmt.Sprintf("id %d twice", id))
	}
	w.text = out
	w.start[id], w.size[id] = uint32(st), uint8(len(out)-st)
	if 2*w.count > len(w.slots) {
		w.grow()
	}
	if !w.put(id) {
		return unsupported("vocabulary", fmt.Sprintf("token %d is listed twice", id))
	}
	return nil
}

func (w *words) grow() {
	w.slots = make([]uint64, 4*len(w.slots))
	for id, n := range w.size {
		if n != 0 {
			w.put(uint32(id))
		}
	}
}

// put enters id; it returns false if its bytes already have another id.
func (w *words) put(id uint32) bool {
	b := w.at(id)
	h, mask := hashBytes(b), uint64(len(w.slots)-1)
	for x := h & mask; ; x = (x + 1) & mask {
		if w.slots[x] == 0 {
			w.slots[x] = h>>32<<32 | uint64(id+1)
			return true
		}
		if old := uint32(w.slots[x]) - 1; old != id && w.slots[x]>>32 == h>>32 && string(w.at(old)) == string(b) {
			return false
		}
	}
}

// find returns the id of b, while loading.
func (w *words) find(b []byte) (uint32, bool) {
	h, mask := hashBytes(b), uint64(len(w.slots)-1)
	for x := h & mask; ; x = (x + 1) & mask {
		e := w.slots[x]
		if e == 0 {
			return 0, false
		}
		if id := uint32(e) - 1; e>>32 == h>>32 && string(w.at(id)) == string(b) {
			return id, true
		}
	}
}

// lookup returns the id of an entry as the file spells it. It walks the whole
// vocabulary.
func (w *words) lookup(key string) (uint32, bool) {
	if id, ok := w.raw[key]; ok {
		return id, true
	}
	b, ok := appendBytes(nil, key)
	if !ok || len(b) == 0 || len(b) > maxTokenBytes {
		return 0, false
	}
	for id, n := range w.size {
		if int(n) == len(b) && string(w.at(uint32(id))) == string(b) {
			return uint32(id), true
		}
	}
	return 0, false
}

func hashBytes(b []byte) uint64 {
	h := uint64(len(b)) * 0x9E3779B97F4A7C15
	for len(b) >= 8 {
		hi, lo := bits.Mul64(h^binary.LittleEndian.Uint64(b), 0xD6E8FEB86659FD93)
		h = hi ^ lo
		b = b[8:]
	}
	var x uint64
	for i, c := range b {
		x |= uint64(c) << (8 * i)
	}
	hi, lo := bits.Mul64(h^x, 0xA0761D6478BD642F)
	return hi ^ lo
}

// key is lookup for use while loading.
func (w *words) key(key string) (uint32, bool) {
	if id, ok := w.raw[key]; ok {
		return id, true
	}
	b, ok := appendBytes(nil, key)
	if !ok || len(b) == 0 {
		return 0, false
	}
	return w.find(b)
}
