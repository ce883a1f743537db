package oracle

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// Pieces of text that often reveal errors of scanners, normalizers and merges.
var (
	Spaces = strings.Split(" |  |\t|\n|\r\n|\r|\u00a0|\u3000|\u2003|\u0085|\u200b|\x0b|\x0c|\x1c|\u2028|\n\n|   ", "|")
	Marks  = strings.Split("\u0301|\u0323|\u0345|\u0316|\u093c|\u3099|\u1161|\u11a8|\u05b0|\u0652|\u0338|\u1e08f|"+
		"\u20d2|\u0c3c|\u200d|\ufe0f", "|")
	Signs = strings.Split("😀|👨‍👩‍👧|🏳️‍🌈|👍🏽|✈️|🇩🇪|©|™|…|“|”|—|²|½|Ⅷ|🂡|€|≠|Å|ﬁ|\u2126|\u0958|\ufb1d|\U0001d15e|\U0002f800",
		"|")
	Words = strings.Split("中|文|日本|の|ア|한국|어|ก|ไ|ا|ل|م|ש|Д|ж|ё|é|ß|ſ|'ſ|İ|ñ|٣|५|߀|𝟘|𞤀|e\u0301|A\u030a|가|각|ᄀ|ᾳ|ǅ|ʰ|ª|Σ|ς|"+
		"\U0001e5f1|\U00010d41|\U00011de1|\U00016ff4", "|")
	ASCII = strings.Split("'s|'T|'re|'VE|'ll|'x|'|the| of|Hello|WORLD|x|12|3456|0|.|,|!!|()|{|};|//|#|\x00|\x7f|<|>|_a|"+
		"camelCase|\\n|/|a/b|--|==", "|")
)

// Random returns n documents of unusual, randomly combined pieces. extra holds additional
// pieces, such as added tokens.
func Random(seed uint64, n int, extra ...string) [][]byte {
	r := rand.New(rand.NewPCG(seed, 0))
	mixed := append(append(append([]string{}, ASCII...), Words...), append(Signs, Spaces...)...)
	mixed = append(mixed, Marks...)
	docs := make([][]byte, n)
	for i := range docs {
		var s strings.Builder
		for range 1 + r.IntN(100) {
			switch i % 6 {
			case 0:
				s.WriteString(pick(r, append(Spaces, "a", " b", "1")))
			case 1:
				s.WriteString(pick(r, append(Words, Spaces...)))
			case 2:
				s.WriteString(pick(r, append(ASCII, Spaces...)))
			case 3:
				s.WriteString(pick(r, append(Marks, Words...)))
			case 4:
				s.WriteString(pick(r, mixed))
			default:
				s.WriteRune(randomRune(r))
			}
			if len(extra) > 0 && r.IntN(4) == 0 {
				s.WriteString(pick(r, extra))
			}
		}
		docs[i] = []byte(s.String())
	}
	return docs
}

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

func randomRune(r *rand.Rand) rune {
	ranges := [][2]rune{{0x20, 0x7f}, {0x80, 0x800}, {0x300, 0x370}, {0x800, 0xd800}, {0xe000, 0x10000},
		{0x10000, 0x20000}, {0xac00, 0xd7a4}, {0x1100, 0x1200}, {0x4e00, 0xa000}, {0x1e00, 0x2000}}
	x := ranges[r.IntN(len(ranges))]
	return x[0] + r.Int32N(x[1]-x[0])
}

// Tokens returns about n bytes that consist of tokens of a vocabulary of the given size.
// The tokens are valid UTF-8 and mostly not ASCII, so that the text has many merges of
// every script. token returns the bytes of id, nil if there is none.
func Tokens(seed uint64, n, size int, token func(id uint32) []byte) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []byte
	for len(out) < n {
		b := token(uint32(r.IntN(size)))
		if !utf8.Valid(b) || len(b) == 0 || b[len(b)-1] < 0x80 && r.IntN(8) > 0 {
			continue
		}
		for range 1 + r.IntN(3) {
			out = append(out, b...)
		}
		if r.IntN(5) == 0 {
			out = append(out, pick(r, append(Spaces, ",", ". "))...)
		}
	}
	return out
}

// Long returns single pre-tokens of about n bytes each, for which a merge loop of
// quadratic time takes far too long.
func Long(seed uint64, n int) [][]byte {
	r := rand.New(rand.NewPCG(seed, 2))
	var letters, han, common strings.Builder
	for letters.Len() < n {
		letters.WriteByte(byte('a' + r.IntN(26)))
	}
	for han.Len() < n {
		han.WriteRune(0x4e00 + r.Int32N(0x5000))
		common.WriteRune([]rune("中文字国人大的一是在不了有和这")[r.IntN(15)])
	}
	rep := func(s string) []byte { return []byte(strings.Repeat(s, n/len(s))) }
	return [][]byte{rep("a"), rep("ab"), rep(" "), rep("!"), rep("\n"), rep("="), []byte(letters.String()),
		[]byte(han.String()), []byte(common.String())}
}
