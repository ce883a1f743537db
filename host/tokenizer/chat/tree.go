package chat

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// piece is a part of a rendered prompt: a span of a text, or bytes.
type piece struct {
	text   *jinja.Text
	lit    []byte
	off, n int
}

func (p *piece) bytes() string {
	return p.text.S[p.off : p.off+p.n]
}

// tree holds rendered prompts as paths of pieces from its root.
type tree struct {
	sizes []int // block sizes of the lanes
	seed  uint64
	root  *node
	nodes map[nodeKey]*node // guarded by the memo's mu
	gone  bool              // replaced; guarded by the memo's mu
}

// node is a prompt: the prompt of up and one more piece. Its data describe the
// prompt up to the last safe cut, which lies in its piece or before. A node is
// immutable except for its atomics and the fields guarded by the memo's mu.
type node struct {
	up   *node
	text uint64 // ID of the piece's text, 0: the piece is lit
	off  int
	n    int // length of the piece
	lit  string

	tokens  int      // number of tokens up to the cut
	pending int      // number of bytes after the cut
	tail    []uint32 // the last tokens up to the cut: the longest partial block
	blocks  []uint64 // hashes of the blocks completed in the piece, lane by lane

	next  atomic.Pointer[node] // guess: the node that last followed this one
	stamp atomic.Uint32        // epoch of the last use
	kids  int                  // guarded by the memo's mu
	gone  bool                 // evicted; guarded by the memo's mu
}

// nodeKey identifies a node by its parent and its piece. For a literal, hash
// represents the bytes, which are compared as well.
type nodeKey struct {
	up     *node
	hash   uint64
	off, n int
}

func keyOf(up *node, p *piece) nodeKey {
	if p.text != nil {
		return nodeKey{up, p.text.ID, p.off, p.n}
	}
	return nodeKey{up, maphash.Bytes(hashSeed, p.lit), -1, p.n}
}

// key returns keyOf for the node's own piece.
func (x *node) key() nodeKey {
	if x.text != 0 {
		return nodeKey{x.up, x.text, x.off, x.n}
	}
	return nodeKey{x.up, maphash.String(hashSeed, x.lit), -1, x.n}
}

func (x *node) is(p *piece) bool {
	if p.text != nil {
		return x.text == p.text.ID && x.off == p.off && x.n == p.n
	}
	return x.text == 0 && x.lit == string(p.lit)
}

// bytes returns the memory of x.
func (x *node) bytes() int64 {
	return int64(nodeBytes + len(x.lit) + 4*cap(x.tail) + 8*cap(x.blocks))
}

// newTree creates a tree for block sizes, whose prompts begin with the special
// tokens if affix is set.
func newTree(a affixes, affix bool, sizes []int, seed uint64) *tree {
	t := &tree{sizes: sizes, seed: seed, nodes: map[nodeKey]*node{}}
	t.root = &node{}
	if affix {
		t.advance(t.root, nil, a.prefix)
	}
	return t
}

// has reports whether all sizes are lanes of t.
func (t *tree) has(sizes []int) bool {
next:
	for _, s := range sizes {
		for _, l := range t.sizes {
			if s == l {
				continue next
			}
		}
		return false
	}
	return true
}

// lane returns the index of the lane of a block size.
func (t *tree) lane(size int) int {
	for i, s := range t.sizes {
		if s == size {
			return i
		}
	}
	panic("BUG: chat: block size without a lane")
}

// advance sets the data of x: the state of up followed by the fresh tokens. tokens
// holds up's tail and then the fresh tokens; up is nil for the root.
func (t *tree) advance(x, up *node, tokens []uint32) {
	before, held := 0, 0
	if up != nil {
		before, held = up.tokens, len(up.tail)
	}
	x.tokens = before + len(tokens) - held
	keep, whole := 0, 0
	for _, size := range t.sizes {
		whole += x.tokens/size - before/size
	}
	if whole > 0 {
		x.blocks = make([]uint64, 0, whole)
	}
	for lane, size := range t.sizes {
		partial := before % size
		x.blocks, _ = blockhash.Append(x.blocks, t.tip(up, lane), tokens[held-partial:], size)
		keep = max(keep, x.tokens%size)
	}
	x.tail = append(make([]uint32, 0, keep), tokens[len(tokens)-keep:]...)
}

// tip returns the last block hash of a lane up to x, or the seed if there is none.
func (t *tree) tip(x *node, lane int) uint64 {
	for ; x != nil; x = x.up {
		if b := t.added(x, lane); len(b) > 0 {
			return b[len(b)-1]
		}
	}
	return t.seed
}

// added returns the hashes that x adds to a lane.
func (t *tree) added(x *node, lane int) []uint64 {
	before := 0
	if x.up != nil {
		before = x.up.tokens
	}
	b := x.blocks
	for i, size := range t.sizes {
		n := x.tokens/size - before/size
		if i == lane {
			return b[:n]
		}
		b = b[n:]
	}
	panic("BUG: chat: no such lane")
}

// chain returns the hashes of a lane up to x, in dst's memory.
func (t *tree) chain(dst []uint64, x *node, lane int) []uint64 {
	end := x.tokens / t.sizes[lane]
	if cap(dst) < end {
		dst = make([]uint64, end, end+end/4+16)
	}
	dst = dst[:end]
	for ; x != nil; x = x.up {
		b := t.added(x, lane)
		copy(dst[end-len(b):], b)
		end -= len(b)
	}
	return dst
}

// pendingText appends the last n bytes of a path of pieces to dst: those after the cut
// of its last node.
func pendingText(dst []byte, path []piece, n int) []byte {
	first := len(path)
	for n > 0 {
		first--
		n -= path[first].n
	}
	skip := -n // the beginning of the first piece lies before the cut
	for i := first; i < len(path); i++ {
		if p := &path[i]; p.text != nil {
			dst = append(dst, p.bytes()[skip:]...)
		} else {
			dst = append(dst, p.lit[skip:]...)
		}
		skip = 0
	}
	return dst
}
