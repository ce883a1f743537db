package bpe

import (
	"encoding/base64"
	"encoding/binary"
	"sync"
)

// Class bits of a code point. cA and cB are the two letter sets of the o200k
// pattern.
const (
	cL  = 1 << iota // \p{L}
	cN              // \p{N}
	cS              // \s
	cNL             // \r \n
	cM              // \p{M}
	cPS             // \p{P} \p{S}
	cA              // Lu Lt Lm Lo M
	cB              // Ll Lm Lo M
)

// classBits converts the class numbers of the generated table into bits.
var classBits = [11]uint8{0, cL | cA, cL | cB, cL | cA, cL | cA | cB, cL | cA | cB, cM | cA | cB, cN, cPS, cPS, cS}

const codePoints = 0x110000

// Two-stage tables in blocks of 64 code points, so that the last byte of a
// UTF-8 sequence is an index into a block. unicodeInit fills them.
var (
	stage1 [codePoints >> 6]uint16 // number of the block
	blocks []uint8                 // [64 a block] class bits
	nfcOK  [codePoints >> 6]uint64 // bit set: in NFC regardless of what precedes it
	wordCP [codePoints >> 6]uint64 // bit set: a word character of single_word
	ascii  [256]uint8              // class bits below 0x80, 0 above
)

// unicodeInit fills all tables that depend on Unicode. Parse calls it, so a
// program that loads no tokenizer does not spend the time.
var unicodeInit = sync.OnceFunc(func() {
	fillClasses()
	eachRun(wordRuns, func(cp, end int, k uint8) {
		for ; k != 0 && cp < end; cp++ {
			wordCP[cp>>6] |= 1 << (cp & 63)
		}
	})
	fillLeads()
	fillNFC()
})

func fillClasses() {
	seen := map[[64]uint8]uint16{}
	var block [64]uint8
	eachRun(classRuns, func(cp, end int, k uint8) {
		for ; cp < end; cp++ {
			b := classBits[k&15]
			if cp == '\r' || cp == '\n' {
				b |= cNL
			}
			if cp < 128 {
				ascii[cp] = b
			}
			if k&16 == 0 {
				nfcOK[cp>>6] |= 1 << (cp & 63)
			}
			block[cp&63] = b
			if cp&63 == 63 {
				stage1[cp>>6] = addBlock(seen, &block)
			}
		}
	})
}

func addBlock(seen map[[64]uint8]uint16, block *[64]uint8) uint16 {
	id, ok := seen[*block]
	if !ok {
		id = uint16(len(blocks) >> 6)
		seen[*block] = id
		blocks = append(blocks, block[:]...)
	}
	return id
}

// eachRun calls f for every run [cp, end) of a run-length table.
func eachRun(table string, f func(cp, end int, k uint8)) {
	cp := 0
	for raw := tableBytes(table); len(raw) > 0; {
		n, w := binary.Uvarint(raw)
		f(cp, cp+int(n), raw[w])
		cp += int(n)
		raw = raw[w+1:]
	}
}

func tableBytes(table string) []byte {
	raw, err := base64.StdEncoding.DecodeString(table)
	if err != nil {
		panic("BUG: bpe: generated table: " + err.Error())
	}
	return raw
}

// class returns the class bits and the width of the code point at i of valid
// UTF-8. For an invalid sequence it returns class 0, width 1. It reads nothing
// beyond s.
func class(s []byte, i int) (bits uint8, width int) {
	c := s[i]
	if c < 0x80 {
		return ascii[c], 1
	}
	if c < 0xE0 {
		if c >= 0xC2 && i+1 < len(s) {
			return blocks[int(stage1[c&0x1F])<<6|int(s[i+1]&0x3F)], 2
		}
	} else if c < 0xF0 {
		if i+2 < len(s) {
			return blocks[int(stage1[int(c&0x0F)<<6|int(s[i+1]&0x3F)])<<6|int(s[i+2]&0x3F)], 3
		}
	} else if i+3 < len(s) && c < 0xF5 {
		if k := int(c&7)<<12 | int(s[i+1]&0x3F)<<6 | int(s[i+2]&0x3F); k < len(stage1) {
			return blocks[int(stage1[k])<<6|int(s[i+3]&0x3F)], 4
		}
	}
	return 0, 1
}
