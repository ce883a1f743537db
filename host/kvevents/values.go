package kvevents

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// hashValue reads a block hash: an integer of any width (a negative one as its
// two's complement) or bytes, of which the last eight count, big-endian, as vLLM
// itself shortens them (kv_cache_utils.py, maybe_convert_block_hash).
func hashValue(r *reader) (uint64, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	if !isBytes(c) {
		v, _, err := r.integer()
		return v, err
	}
	s, err := r.text()
	if err != nil {
		return 0, err
	}
	if len(s) >= 8 {
		return binary.BigEndian.Uint64(s[len(s)-8:]), nil
	}
	if len(s) == 0 {
		return 0, errRange
	}
	var v uint64
	for _, b := range s {
		v = v<<8 | uint64(b)
	}
	return v, nil
}

func (d *Decoder) hashList(r *reader, f *fields) error {
	n, err := r.array()
	start := len(d.hashes)
	for ; err == nil && n > 0; n-- {
		var h uint64
		if r.i+9 <= len(r.b) && r.b[r.i] == 0xcf {
			h = binary.BigEndian.Uint64(r.b[r.i+1:])
			r.i += 9
		} else if h, err = hashValue(r); err != nil {
			return err
		}
		d.hashes = append(d.hashes, h)
	}
	f.hasBlock = true
	f.Hashes = d.hashes[start:len(d.hashes):len(d.hashes)]
	return err
}

// tokenList reads token ids. It is where nearly all bytes of a stream are, so
// the three widths that vocabularies need are read in place.
func (d *Decoder) tokenList(r *reader, f *fields) error {
	n, err := r.array()
	if err != nil {
		return err
	}
	start := len(d.tokens)
	out, b, i := d.tokens, r.b, r.i
	for ; n > 0; n-- {
		if i+5 > len(b) { // near the end: with checks, below
			break
		}
		switch c := b[i]; {
		case c < 0x80:
			out = append(out, uint32(c))
			i++
		case c == 0xcd:
			out = append(out, uint32(b[i+1])<<8|uint32(b[i+2]))
			i += 3
		case c == 0xce:
			out = append(out, binary.BigEndian.Uint32(b[i+1:]))
			i += 5
		case c == 0xcc:
			out = append(out, uint32(b[i+1]))
			i += 2
		default:
			r.i = i
			v, err := tokenValue(r)
			if err != nil {
				d.tokens = out
				return err
			}
			i, out = r.i, append(out, v)
		}
	}
	for r.i = i; n > 0; n-- {
		v, err := tokenValue(r)
		if err != nil {
			d.tokens = out
			return err
		}
		out = append(out, v)
	}
	d.tokens = out
	f.Tokens = out[start:len(out):len(out)]
	return nil
}

// tokenValue reads one token id, or a pair of them: with EAGLE drafting SGLang
// sends bigrams, whose two ids are hashed to one number. Such blocks match no
// prompt, as intended: they are not the prompt's own blocks.
func tokenValue(r *reader) (uint32, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	if !isArray(c) {
		v, negative, err := r.integer()
		if err == nil && (negative || v >= 1<<32) {
			err = errRange
		}
		return uint32(v), err
	}
	n, err := r.array()
	if err == nil && n != 2 {
		err = errType
	}
	var buf [16]byte
	for k := 0; err == nil && k < 2; k++ {
		var v uint64
		v, _, err = r.integer()
		binary.LittleEndian.PutUint64(buf[8*k:], v)
	}
	return uint32(xxhash.Sum64(buf[:])) | 1<<31, err
}

func (d *Decoder) copyList(r *reader, f *fields) error {
	n, err := r.array()
	start := len(d.copies)
	for ; err == nil && n > 0; n-- {
		var v int
		v, err = r.count(1 << 31)
		d.copies = append(d.copies, uint32(v))
	}
	f.Copies = d.copies[start:len(d.copies):len(d.copies)]
	return err
}

// loraID reads the adapter's number (vLLM) or opaque id (a string).
func (d *Decoder) loraID(r *reader, f *fields) error {
	c, err := r.peek()
	if err != nil {
		return err
	}
	if isString(c) || isBytes(c) {
		s, err := r.text()
		if len(f.Adapter) == 0 {
			f.Adapter, f.AdapterIsID = s, true
		}
		return err
	}
	f.loraID, _, err = r.integer()
	f.hasID = err == nil
	return err
}

// mediumValue reads a medium's name. A value of another type counts as External:
// a block in an unknown place must not count as held on the GPU.
func mediumValue(r *reader, f *fields) error {
	c, err := r.peek()
	if err != nil {
		return err
	}
	if !isString(c) && !isBytes(c) {
		f.Medium = External
		return r.skip()
	}
	s, err := r.text()
	f.Medium = parseMedium(s)
	return err
}

// extraKeys reads extra_keys: per block nil or the list lora, images, salt,
// embeddings (vLLM, generate_block_hash_extra_keys). The adapter's name is on
// every block and is taken off first (llm-d-router#2927: else no request with an
// adapter ever matches). The salt is the last bare string of the block that
// starts at token 0. The remaining keys make up a digest per block.
func (d *Decoder) extraKeys(f *fields) error {
	r := f.extra
	n, err := r.array()
	if err != nil {
		return err
	}
	if n != len(f.Hashes) {
		return errShape
	}
	start := len(d.hashes)
	some := false
	for i := range n {
		var digest uint64
		if !r.isNil() {
			if digest, err = blockKeys(&r, f, i == 0 && !f.HasParent); err != nil {
				return err
			}
		}
		some = some || digest != 0
		d.hashes = append(d.hashes, digest)
	}
	if some {
		f.Extra = d.hashes[start:len(d.hashes):len(d.hashes)]
	} else {
		d.hashes = d.hashes[:start]
	}
	return nil
}

// blockKeys reads the keys of one block and returns the digest of those that are
// neither adapter nor salt; 0 if there are none.
func blockKeys(r *reader, f *fields, first bool) (uint64, error) {
	n, err := r.array()
	if err != nil {
		return 0, err
	}
	digest, adapter := uint64(0), false
	var bare []byte // last bare string, not yet digested: the salt if it stays last
	hasBare := false
	for ; n > 0; n-- {
		at := r.i
		c, err := r.peek()
		if err != nil {
			return 0, err
		}
		if isString(c) {
			s, err := r.text()
			if err != nil {
				return 0, err
			}
			if !adapter && len(f.Adapter) != 0 && bytes.Equal(s, f.Adapter) {
				adapter = true
				continue
			}
			if hasBare {
				digest = chainDigest(digest, bare)
			}
			bare, hasBare = s, true
			continue
		}
		if err := r.skip(); err != nil {
			return 0, err
		}
		if raw := r.b[at:r.i]; !adapter && f.hasID && isNumber(raw, f.loraID) {
			adapter = true
		} else {
			digest = chainDigest(digest, raw)
		}
	}
	switch {
	case hasBare && first && !f.SaltUnhashed:
		f.Salt = bare
	case hasBare:
		digest = chainDigest(digest, bare)
	}
	return digest, nil
}

// isNumber reports whether raw is the msgpack integer v.
func isNumber(raw []byte, v uint64) bool {
	r := reader{b: raw}
	got, _, err := r.integer()
	return err == nil && got == v && r.i == len(raw)
}

// chainDigest extends a digest by one key; never 0.
func chainDigest(prev uint64, key []byte) uint64 {
	var buf [16]byte
	binary.LittleEndian.PutUint64(buf[:], prev)
	binary.LittleEndian.PutUint64(buf[8:], xxhash.Sum64(key))
	if h := xxhash.Sum64(buf[:]); h != 0 {
		return h
	}
	return 1
}
