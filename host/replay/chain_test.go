package replay

import (
	"slices"
	"testing"
)

func TestChainer(t *testing.T) {
	var c chainer
	a := slices.Clone(c.add([]uint64{1, 2, 3}))
	longer := c.add([]uint64{1, 2, 3, 4})
	other := c.add([]uint64{1, 2, 9, 9, 9})
	short := c.add([]uint64{1})
	again := c.add([]uint64{1, 2, 3, 4})
	if !slices.Equal(longer[:3], a) || !slices.Equal(longer, again) {
		t.Errorf("equal prompts have chains %x, %x, %x", a, longer, again)
	}
	if !slices.Equal(other[:2], a[:2]) || other[2] == a[2] || other[3] == other[4] {
		t.Errorf("a prompt that differs from block 2 has the chain %x, the first %x", other, a)
	}
	if len(short) != 1 || short[0] != a[0] {
		t.Errorf("the prompt of one block has the chain %x, want %x", short, a[:1])
	}
}

func TestChainer_sharesMemory(t *testing.T) {
	var c chainer
	var names []uint64
	var last []uint64
	for i := range 1000 {
		names = append(names, uint64(i))
		last = c.add(names)
	}
	if first := c.add(names[:10]); &first[0] != &last[0] {
		t.Error("a prompt that is the start of another has memory of its own")
	}
}
