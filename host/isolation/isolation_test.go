package isolation

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var t0 = time.Unix(1e9, 0)

// chain returns n random hashes.
func chain(r *rand.Rand, n int) []uint64 {
	c := make([]uint64, n)
	for i := range c {
		c[i] = r.Uint64()
	}
	return c
}

func exact(ns uint64, c []uint64) *Prompt {
	return &Prompt{Namespace: ns, Chain: c, Block: 16, Exact: true}
}

// TestHistory_ownBlocks: what a namespace has sent explains what is reported, up
// to less than a block; another's blocks explain nothing.
func TestHistory_ownBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	h := New(1 << 20)
	a, b := chain(r, 64), chain(r, 64) // the same prompt in two namespaces
	excess := func(p *Prompt, reported int) int {
		t.Helper()
		c := h.Sent(p)
		return h.Excess(&c, reported, 0, true, t0)
	}
	if got := excess(exact(1, a), 15); got != 0 {
		t.Errorf("less than a block is %d in excess", got)
	}
	if got := excess(exact(1, a), 1024); got != 0 {
		t.Errorf("own prompt: %d in excess", got)
	}
	if got := excess(exact(2, b), 512); got != 512 {
		t.Errorf("first prompt of a namespace: %d in excess, want 512", got)
	}
	longer := append(append([]uint64(nil), a[:32]...), chain(r, 32)...)
	if got := excess(exact(1, longer), 527); got != 0 {
		t.Errorf("shared beginning: %d in excess", got)
	}
	longer = append(append([]uint64(nil), a[:32]...), chain(r, 32)...)
	if got := excess(exact(1, longer), 528); got != 16 {
		t.Errorf("a block more than the shared beginning: %d in excess, want 16", got)
	}
	stored := chain(r, 40)
	h.Stored(stored)
	if got := excess(exact(3, stored), 640); got != 0 {
		t.Errorf("blocks of events: %d in excess", got)
	}
	c := h.Sent(exact(4, chain(r, 8)))
	if got := h.Excess(&c, 128, 128, true, t0); got != 0 {
		t.Errorf("blocks of the index: %d in excess", got)
	}
}

// TestHistory_answers: answers are cached too. With events they are known after a
// moment, without them they explain as much as the longest one was.
func TestHistory_answers(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	h := New(1 << 20)
	first := chain(r, 4)
	c := h.Sent(exact(1, first))
	h.Answered(&c, 100, t0)
	next := func() []uint64 { return append(append([]uint64(nil), first...), chain(r, 20)...) }
	for _, k := range []struct {
		name     string
		reported int
		live     bool
		now      time.Time
		want     int
	}{
		{"the answer", 64 + 96, false, t0.Add(time.Hour), 0},
		{"more than the answer", 64 + 128, false, t0.Add(time.Hour), 128},
		{"events under way", 64 + 96, true, t0.Add(time.Second), 0},
		{"events arrived without it", 64 + 96, true, t0.Add(time.Hour), 96},
	} {
		c := h.Sent(exact(1, next()))
		if got := h.Excess(&c, k.reported, 0, k.live, k.now); got != k.want {
			t.Errorf("%s: %d in excess, want %d", k.name, got, k.want)
		}
	}
	c = h.Sent(exact(1, chain(r, 20)))
	if got := h.Excess(&c, 64, 0, false, t0); got != 64 {
		t.Errorf("an answer explains a prompt that begins otherwise: %d in excess, want 64", got)
	}
	c = h.Sent(exact(2, nil)) // no whole block
	h.Answered(&c, -1, t0)
	c = h.Sent(exact(2, chain(r, 20)))
	if got := h.Excess(&c, 320, 0, false, t0); got != 0 {
		t.Errorf("after a short prompt with an unknown answer: %d in excess", got)
	}
}

// TestHistory_unknownPrompts: prompts whose blocks are not known explain all later
// ones of the namespace, where no events report them; the first explains nothing.
func TestHistory_unknownPrompts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	h := New(1 << 20)
	c := h.Sent(&Prompt{Namespace: 1})
	if got := h.Excess(&c, 512, 0, false, t0); got != 512 {
		t.Errorf("first prompt: %d in excess, want 512", got)
	}
	c = h.Sent(&Prompt{Namespace: 1})
	if got := h.Excess(&c, 512, 0, false, t0); got != 0 {
		t.Errorf("second prompt: %d in excess", got)
	}
	c = h.Sent(exact(1, chain(r, 40)))
	if got := h.Excess(&c, 512, 0, false, t0); got != 0 {
		t.Errorf("known prompt without events: %d in excess", got)
	}
	c = h.Sent(exact(1, chain(r, 40)))
	if got := h.Excess(&c, 512, 0, true, t0); got != 512 {
		t.Errorf("known prompt with events: %d in excess, want 512", got)
	}
	c = h.Sent(&Prompt{Namespace: 2, Many: true})
	if got := h.Excess(&c, 512, 0, false, t0); got != 0 {
		t.Errorf("several sequences: %d in excess", got)
	}
	alone := &Prompt{Namespace: 3, Alone: true, Exact: true, Block: 16}
	h.Sent(alone)
	if c = h.Sent(alone); h.Excess(&c, 16, 0, false, t0) != 16 {
		t.Error("a salt of one request explains nothing")
	}
	if c = (Claim{}); h.Excess(&c, 1e6, 0, true, t0) != 0 {
		t.Error("the zero claim makes no statement")
	}
}

// TestFilter_forgets: the young half is kept, memory is bounded, and few hashes
// are taken for known.
func TestFilter_forgets(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	h := New(1 << 16)
	var last []uint64
	for range 64 {
		last = chain(r, 1000)
		h.Stored(last)
	}
	if n := h.blocks.known(last); n != len(last) {
		t.Errorf("knows %d of the last %d", n, len(last))
	}
	if h.Bytes() > 1<<16 {
		t.Errorf("%d bytes", h.Bytes())
	}
	wrong := 0
	for _, x := range chain(r, 20000) {
		if h.blocks.known([]uint64{x}) > 0 {
			wrong++
		}
	}
	if wrong > 200 {
		t.Errorf("%d of 20000 hashes are taken for known", wrong)
	}
}

// TestHistory_saved: a history is the same after a restart; what is no history, or
// ends early, changes nothing.
func TestHistory_saved(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	h := New(1 << 16)
	a := chain(r, 10)
	c := h.Sent(exact(1, a))
	h.Answered(&c, 50, t0)
	var file bytes.Buffer
	if err := h.Save(&file); err != nil {
		t.Fatal(err)
	}
	whole := file.Bytes()
	g := New(1 << 16)
	for n := 0; n < len(whole); n += 977 {
		if err := g.Load(bytes.NewReader(whole[:n])); err == nil {
			t.Fatalf("loaded from %d of %d bytes", n, len(whole))
		}
	}
	if c := g.Sent(exact(9, nil)); g.blocks.turns.Load() != nil || c.tokens != 0 {
		t.Error("a failed Load left something")
	}
	if err := New(1 << 20).Load(bytes.NewReader(whole)); !errors.Is(err, ErrFormat) {
		t.Errorf("another size: %v", err)
	}
	if err := g.Load(bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	c = g.Sent(exact(1, append(a, chain(r, 10)...)))
	if c.tokens != 160 || g.Excess(&c, 160+50, 0, false, t0) != 0 {
		t.Errorf("got %+v", c)
	}
}

// TestFile: a history is saved when its Run ends, and read again. It is complete
// unless its last writer was killed, its file is broken or missing.
func TestFile(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	path := filepath.Join(t.TempDir(), "history")
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	a := chain(r, 10)
	open := func(what string, fresh bool, tokens int, complete bool) *File {
		t.Helper()
		f := Open(path, 1<<16, fresh, log)
		if c := f.Sent(exact(1, a)); c.tokens != tokens || f.Complete() != complete {
			t.Errorf("%s: knows %d tokens, complete %v; want %d, %v", what, c.tokens, f.Complete(), tokens, complete)
		}
		return f
	}
	end := func(f *File) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	open("the first", true, 0, true) // and killed
	end(open("after a kill", false, 0, false))
	end(open("after an end in good order", false, 160, true))
	open("again", false, 160, true) // and killed
	end(open("after another kill", false, 160, false))
	if err := os.WriteFile(path, []byte("something else altogether"), 0o600); err != nil {
		t.Fatal(err)
	}
	end(open("a broken file", false, 0, false))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	end(open("no file under salts in use", false, 0, false))
	open("the file that replaces it", false, 160, true)
}

// TestHistory_stress: concurrent use keeps what was added.
func TestHistory_stress(t *testing.T) {
	h := New(1 << 20)
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(6, g))
			for range 500 {
				p := exact(g, chain(r, 20))
				c := h.Sent(p)
				h.Answered(&c, 10, t0)
				h.Stored(chain(r, 5))
				if n := h.blocks.known(p.Chain); n != 20 {
					t.Errorf("knows %d of 20", n)
				}
				if again := h.Sent(p); h.Excess(&again, 320, 0, true, t0) != 0 {
					t.Error("own prompt is in excess")
				}
			}
			h.Save(&bytes.Buffer{})
		})
	}
	wg.Wait()
}

// BenchmarkHistory_Sent is a prompt of 8,192 tokens whose second half is new.
func BenchmarkHistory_Sent(b *testing.B) {
	h := New(32 << 20)
	r := rand.New(rand.NewPCG(7, 7))
	p := exact(1, chain(r, 512))
	h.Sent(p)
	b.ReportAllocs()
	for b.Loop() {
		for i := 256; i < 512; i++ {
			p.Chain[i]++
		}
		h.Sent(p)
	}
}
