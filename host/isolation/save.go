package isolation

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// ErrFormat is returned by Load for what Save did not write, or wrote with another
// size.
var ErrFormat = errors.New("isolation: not a history of this size")

// magic begins a saved history; its last digit is the format.
const magic = "kvasir-history-1"

// header is what follows it.
type header struct {
	Lines  uint32
	Halves uint32
	Spaces uint32
}

// Save writes the history. It contains bits of salted hashes, no prompt and no
// salt; who has the key of the salts can test by it whether a prompt was sent.
func (h *History) Save(to io.Writer) error {
	w := bufio.NewWriter(to)
	t := h.blocks.turns.Load()
	var parts []*half
	if t != nil {
		parts = append(parts, t.young)
		if t.old != nil {
			parts = append(parts, t.old)
		}
	}
	spaces := h.copySpaces()
	w.WriteString(magic)
	write(w, header{uint32(h.blocks.lines), uint32(len(parts)), uint32(len(spaces))})
	for _, p := range parts {
		write(w, p.n.Load())
		for i := range p.words {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], p.words[i].Load())
			w.Write(b[:])
		}
	}
	for _, s := range spaces {
		write(w, s)
	}
	return w.Flush() // of the first error
}

// savedSpace is the form of a space in a file.
type savedSpace struct {
	Key      uint64
	Answer   uint32
	Answered int64
	Flags    uint32
}

const (
	flagSent = 1 << iota
	flagShort
	flagUnknown
)

func (h *History) copySpaces() (out []savedSpace) {
	h.mu.Lock()
	defer h.mu.Unlock()
	flag := func(on bool, bit uint32) uint32 {
		if on {
			return bit
		}
		return 0
	}
	for key, s := range h.spaces {
		out = append(out, savedSpace{key, s.answer, s.answered, flag(s.sent, flagSent) | flag(s.short,
			flagShort) | flag(s.unknown, flagUnknown)})
	}
	return out
}

// write cannot fail but by the writer, whose first error Flush returns.
func write(w *bufio.Writer, v any) { _ = binary.Write(w, binary.LittleEndian, v) }

// Load replaces the history by a saved one. On an error, ErrFormat or the
// reader's, it stays as it was.
func (h *History) Load(from io.Reader) error {
	r := bufio.NewReader(from)
	got := make([]byte, len(magic))
	if _, err := io.ReadFull(r, got); err != nil {
		return err
	}
	var head header
	if string(got) != magic || binary.Read(r, binary.LittleEndian, &head) != nil ||
		int(head.Lines) != h.blocks.lines || head.Halves > 2 || head.Spaces > maxSpaces {
		return ErrFormat
	}
	var parts [2]*half
	for i := range head.Halves {
		p := h.blocks.newHalf()
		if err := p.read(r); err != nil {
			return err
		}
		parts[i] = p
	}
	spaces := make(map[uint64]*space, head.Spaces)
	for range head.Spaces {
		var s savedSpace
		if err := binary.Read(r, binary.LittleEndian, &s); err != nil {
			return fmt.Errorf("isolation: %w", err)
		}
		spaces[s.Key] = &space{answer: s.Answer, answered: s.Answered, sent: s.Flags&flagSent != 0,
			short: s.Flags&flagShort != 0, unknown: s.Flags&flagUnknown != 0}
	}
	h.mu.Lock()
	h.spaces = spaces
	h.mu.Unlock()
	if parts[0] != nil {
		h.blocks.turns.Store(&halves{parts[0], parts[1]})
	}
	return nil
}

func (p *half) read(r io.Reader) error {
	var n int64
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return fmt.Errorf("isolation: %w", err)
	}
	p.n.Store(n)
	return readWords(r, p.words)
}

func readWords(r io.Reader, words []atomic.Uint64) error {
	var b [8]byte
	for i := range words {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return fmt.Errorf("isolation: %w", err)
		}
		words[i].Store(binary.LittleEndian.Uint64(b[:]))
	}
	return nil
}
