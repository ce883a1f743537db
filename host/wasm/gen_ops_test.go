package wasm

import "github.com/kvasir-router/kvasir/host/internal/leb"

// More value types, for generated modules.
const (
	typeV128    = 0x7b
	typeFuncref = 0x70
)

// genOp is an instruction that takes values from the stack and leaves one.
type genOp struct {
	code  []byte
	in    []byte
	lanes int  // the immediate is a lane below it; 0 = no immediate
	nan   byte // type whose NaNs the result may hold with any payload, 0 = none
	mem   bool // the immediate is an alignment and an offset; the address is in[0]
}

// Operand lists.
var (
	inI, inL, inF, inD, inV      = []byte{typeI32}, []byte{typeI64}, []byte{typeF32}, []byte{typeF64}, []byte{typeV128}
	inII, inLL, inFF, inDD, inVV = []byte{typeI32, typeI32}, []byte{typeI64, typeI64}, []byte{typeF32, typeF32},
		[]byte{typeF64, typeF64}, []byte{typeV128, typeV128}
	inVI, inVL, inVF, inVD, inIV = []byte{typeV128, typeI32}, []byte{typeV128, typeI64}, []byte{typeV128, typeF32},
		[]byte{typeV128, typeF64}, []byte{typeI32, typeV128}
	inVVV = []byte{typeV128, typeV128, typeV128}
)

// genOps are the operators of the feature set by the type of their result.
var genOps = map[byte][]genOp{}

// genStores are the instructions that store in[1] at in[0].
var genStores []genOp

func init() {
	span := func(from, to byte) (codes []byte) {
		for c := int(from); c <= int(to); c++ {
			codes = append(codes, byte(c))
		}
		return codes
	}
	scalar := func(out byte, in []byte, codes ...byte) {
		for _, c := range codes {
			o := genOp{code: []byte{c}, in: in}
			if c >= 0x8d && c <= 0x97 || c >= 0x9b && c <= 0xa5 || c == 0xb6 || c == 0xbb {
				o.nan = out
			}
			genOps[out] = append(genOps[out], o)
		}
	}
	scalar(typeI32, inI, 0x45, 0x67, 0x68, 0x69, 0xc0, 0xc1)
	scalar(typeI32, inII, append(span(0x46, 0x4f), span(0x6a, 0x78)...)...)
	scalar(typeI32, inL, 0x50, 0xa7)
	scalar(typeI32, inLL, span(0x51, 0x5a)...)
	scalar(typeI32, inFF, span(0x5b, 0x60)...)
	scalar(typeI32, inDD, span(0x61, 0x66)...)
	scalar(typeI32, inF, 0xa8, 0xa9, 0xbc)
	scalar(typeI32, inD, 0xaa, 0xab)
	scalar(typeI64, inL, 0x79, 0x7a, 0x7b, 0xc2, 0xc3, 0xc4)
	scalar(typeI64, inLL, span(0x7c, 0x8a)...)
	scalar(typeI64, inI, 0xac, 0xad)
	scalar(typeI64, inF, 0xae, 0xaf)
	scalar(typeI64, inD, 0xb0, 0xb1, 0xbd)
	scalar(typeF32, inF, span(0x8b, 0x91)...)
	scalar(typeF32, inFF, span(0x92, 0x98)...)
	scalar(typeF32, inI, 0xb2, 0xb3, 0xbe)
	scalar(typeF32, inL, 0xb4, 0xb5)
	scalar(typeF32, inD, 0xb6)
	scalar(typeF64, inD, span(0x99, 0x9f)...)
	scalar(typeF64, inDD, span(0xa0, 0xa6)...)
	scalar(typeF64, inI, 0xb7, 0xb8)
	scalar(typeF64, inL, 0xb9, 0xba, 0xbf)
	scalar(typeF64, inF, 0xbb)
	for sub := range byte(8) { // saturating truncation
		out, in := byte(typeI32), [][]byte{inF, inD}[sub/2%2]
		if sub >= 4 {
			out = typeI64
		}
		genOps[out] = append(genOps[out], genOp{code: []byte{prefixMisc, sub}, in: in})
	}
	load := func(out byte, codes ...byte) {
		for _, c := range codes {
			genOps[out] = append(genOps[out], genOp{code: []byte{c}, in: inI, mem: true})
		}
	}
	load(typeI32, 0x28, 0x2c, 0x2d, 0x2e, 0x2f)
	load(typeI64, 0x29, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35)
	load(typeF32, 0x2a)
	load(typeF64, 0x2b)
	for c, t := range map[byte]byte{0x36: typeI32, 0x37: typeI64, 0x38: typeF32, 0x39: typeF64, 0x3a: typeI32,
		0x3b: typeI32, 0x3c: typeI64, 0x3d: typeI64, 0x3e: typeI64} {
		genStores = append(genStores, genOp{code: []byte{c}, in: []byte{typeI32, t}, mem: true})
	}
	genSIMD()
	sortStores()
}

// sortStores makes the order that of the opcodes: a map's is by chance.
func sortStores() {
	for i := range genStores {
		for j := i; j > 0 && string(genStores[j].code) < string(genStores[j-1].code); j-- {
			genStores[j], genStores[j-1] = genStores[j-1], genStores[j]
		}
	}
}

// genSIMD adds the vector instructions, by their numbers in the proposal's
// BinarySIMD.md.
func genSIMD() {
	add := func(out byte, in []byte, lanes int, subs ...uint32) {
		for _, s := range subs {
			o := genOp{code: leb.AppendU32([]byte{prefixSIMD}, s), in: in, lanes: lanes}
			switch {
			case s == 94, s >= 103 && s <= 106, s == 227, s >= 228 && s <= 233:
				o.nan = typeF32
			case s == 95, s == 116, s == 117, s == 122, s == 148, s == 239, s >= 240 && s <= 245:
				o.nan = typeF64
			}
			genOps[out] = append(genOps[out], o)
		}
	}
	ranges := func(bounds ...uint32) (subs []uint32) {
		for i := 0; i < len(bounds); i += 2 {
			for s := bounds[i]; s <= bounds[i+1]; s++ {
				subs = append(subs, s)
			}
		}
		return subs
	}
	add(typeV128, inVV, 0, ranges(14, 14, 35, 76, 78, 81, 101, 102, 110, 115, 118, 121, 123, 123, 130, 130, 133, 134, 142,
		147, 149, 153, 155, 159, 174, 174,
		177, 177, 181, 186, 188, 191, 206, 206, 209, 209, 213, 223, 228, 235, 240, 247)...)
	add(typeV128, inV, 0, ranges(77, 77, 94, 98, 103, 106, 116, 117, 122, 122, 124, 129, 135, 138, 148, 148, 160, 161,
		167, 170, 192, 193, 199, 202, 224, 225,
		227, 227, 236, 237, 239, 239, 248, 255)...)
	add(typeV128, inVI, 0, ranges(107, 109, 139, 141, 171, 173, 203, 205)...)
	add(typeI32, inV, 0, 83, 99, 100, 131, 132, 163, 164, 195, 196)
	add(typeV128, inVVV, 0, 82)
	add(typeV128, inI, 0, 15, 16, 17)
	add(typeV128, inL, 0, 18)
	add(typeV128, inF, 0, 19)
	add(typeV128, inD, 0, 20)
	add(typeI32, inV, 16, 21, 22)
	add(typeV128, inVI, 16, 23)
	add(typeI32, inV, 8, 24, 25)
	add(typeV128, inVI, 8, 26)
	add(typeI32, inV, 4, 27)
	add(typeV128, inVI, 4, 28)
	add(typeI64, inV, 2, 29)
	add(typeV128, inVL, 2, 30)
	add(typeF32, inV, 4, 31)
	add(typeV128, inVF, 4, 32)
	add(typeF64, inV, 2, 33)
	add(typeV128, inVD, 2, 34)
	memory := func(list *[]genOp, in []byte, lanes int, subs ...uint32) {
		for _, s := range subs {
			*list = append(*list, genOp{code: leb.AppendU32([]byte{prefixSIMD}, s), in: in, lanes: lanes, mem: true})
		}
	}
	vectors := genOps[typeV128]
	memory(&vectors, inI, 0, ranges(0, 10, 92, 93)...)
	for i, lanes := range []int{16, 8, 4, 2} {
		memory(&vectors, inIV, lanes, 84+uint32(i))
		memory(&genStores, inIV, lanes, 88+uint32(i))
	}
	genOps[typeV128] = vectors
	memory(&genStores, inIV, 0, 11)
}
