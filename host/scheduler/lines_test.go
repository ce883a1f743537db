package scheduler

import (
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

func newLines() *lineTable {
	t := &lineTable{}
	t.init()
	return t
}

// leave places a request of model 1 that leaves the known after key on slot.
func (t *lineTable) leave(key uint64, slot endpoint.ID) lineRef {
	l := t.find(1, key)
	t.begin(&l, slot, 1)
	return l
}

func TestLines_continuationsAreNoLines(t *testing.T) {
	x := newLines()
	x.leave(0, 0)
	for key := uint64(10); key < 20; key++ {
		if l := x.leave(key, 0); l.group != nil {
			t.Errorf("block %d was left once and is a shared prefix", key)
		}
	}
	if r := x.roots[1]; r.lines != 1 {
		t.Errorf("got %v lines, want 1: ten turns of it", r.lines)
	}
}

func TestLines_secondLeaveMakesASharedPrefix(t *testing.T) {
	x := newLines()
	x.leave(0, 0)
	x.leave(10, 2)
	x.leave(10, 3)
	l := x.find(1, 10)
	if l.group == nil || l.group.lines != 2 || l.group.slots[2].n != 1 || l.group.slots[3].n != 1 {
		t.Fatalf("got group %+v, want one line on 2 and one on 3", l.group)
	}
	if x.roots[1].lines != 2 {
		t.Errorf("got %v lines of the model, want 2", x.roots[1].lines)
	}
	x.move(&l, 3, 1, 1, 1)
	if l.group.slots[3].n != 0 || l.group.slots[1].n != 1 || l.group.lines != 2 {
		t.Errorf("after a move: got %+v", l.group)
	}
}

func TestLines_wantedFollowsShareAndWhatIsPaid(t *testing.T) {
	x := newLines()
	for i := range 100 {
		x.leave(0, endpoint.ID(i%4)) // lines with nothing in common
	}
	for i, want := range map[int]int{2: 1, 50: 1, 100: 2, 300: 3, 900: 4} {
		g := &lineGroup{key: 10, lines: float32(i)}
		l := lineRef{root: &lineGroup{lines: 100 + float32(i)}, group: g}
		if got := max(1, l.byShare(4)); got != want {
			t.Errorf("%d lines beside 100 others: wanted on %d of 4, want %d", i, got, want)
		}
	}
	for i, want := range map[int]int{1: 1, 4: 1, 5: 2, 8: 2, 9: 3, 13: 4, 1000: 4} {
		l := lineRef{root: &lineGroup{lines: float32(i)}, group: &lineGroup{key: 10, lines: float32(i)}}
		if got := min(l.byShare(4), l.paid(4)); got != want {
			t.Errorf("%d lines, all there are: wanted on %d of 4, want %d: a copy is paid by four lines", i, got, want)
		}
	}
}

func TestLines_decay(t *testing.T) {
	x := newLines()
	x.leave(10, 0)
	for range 400 {
		x.leave(10, 0)
	}
	for range 3000 {
		x.leave(0, 1)
	}
	if n := x.roots[1].lines; n >= decayLines {
		t.Errorf("got %v lines, want below %d", n, decayLines)
	}
	l := x.find(1, 10)
	if l.group.lines > 100 {
		t.Errorf("got %v lines of an idle prefix, want them halved away", l.group.lines)
	}
}

func TestLines_bounds(t *testing.T) {
	x := newLines()
	for key := uint64(1); key < 3*maxGroups; key++ {
		x.leave(key, 0)
		x.leave(key, 0)
	}
	if len(x.groups) > maxGroups {
		t.Errorf("got %d groups, want at most %d", len(x.groups), maxGroups)
	}
	for m := range uint64(3 * maxRoots) {
		x.find(m, 0)
	}
	if len(x.roots) > maxRoots {
		t.Errorf("got %d roots, want at most %d", len(x.roots), maxRoots)
	}
	if len(x.firsts) != firstSets*firstWays {
		t.Error("the table of first leaves grew")
	}
}

// An endpoint that joins a running fleet is given new lines, but not all of
// them for a long time.
func TestLines_joinerIsNotFlooded(t *testing.T) {
	r := newRig(t, 3, nil)
	for i := range 300 {
		end(r.place(r.request(words(i, 50))))
	}
	id := r.add("late:1", "main", nil)
	got := 0
	for i := range 40 {
		p := r.place(r.request(words(1000+i, 50)))
		if p.Target().Endpoint == id {
			got++
		}
		end(p)
	}
	if got < 10 || got > 20 {
		t.Errorf("a joiner got %d of 40 lines, want its quarter and at most 8 more", got)
	}
}
