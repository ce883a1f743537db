package scheduler

import (
	"fmt"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

func newConversations() *conversations { return &new(modelTable).of("m").conversations }

// leave places a request that leaves the known after key on slot.
func (t *conversations) leave(key uint64, slot endpoint.ID) branchPoint {
	l := t.findLocked(key)
	t.begin(&l, slot, 1)
	return l
}

func TestConversations_continuationsDoNotCount(t *testing.T) {
	x := newConversations()
	x.leave(0, 0)
	for key := uint64(10); key < 20; key++ {
		if l := x.leave(key, 0); l.group != nil {
			t.Errorf("block %d was left once and is a shared prefix", key)
		}
	}
	if r := x.root; r.count != 1 {
		t.Errorf("got %v conversations, want 1 of ten turns", r.count)
	}
}

func TestConversations_secondLeaveMakesASharedPrefix(t *testing.T) {
	x := newConversations()
	x.leave(0, 0)
	x.leave(10, 2)
	x.leave(10, 3)
	l := x.findLocked(10)
	if l.group == nil || l.group.count != 2 || l.group.slots[2].n != 1 || l.group.slots[3].n != 1 {
		t.Fatalf("got group %+v, want one conversation on 2 and one on 3", l.group)
	}
	if x.root.count != 2 {
		t.Errorf("got %v conversations of the model, want 2", x.root.count)
	}
	x.move(&l, 3, 1, 1, 1)
	if l.group.slots[3].n != 0 || l.group.slots[1].n != 1 || l.group.count != 2 {
		t.Errorf("after a move: got %+v", l.group)
	}
}

func TestConversations_wantedFollowsShareAndWhatIsPaid(t *testing.T) {
	x := newConversations()
	for i := range 100 {
		x.leave(0, endpoint.ID(i%4)) // lines with nothing in common
	}
	for i, want := range map[int]int{2: 1, 50: 1, 100: 2, 300: 3, 900: 4} {
		g := &prefixGroup{key: 10, count: float32(i)}
		l := branchPoint{root: &prefixGroup{count: 100 + float32(i)}, group: g}
		if got := max(1, l.byShare(4)); got != want {
			t.Errorf("%d conversations beside 100 others: deserves %d of 4, want %d", i, got, want)
		}
	}
	for i, want := range map[int]int{1: 1, 4: 1, 5: 2, 8: 2, 9: 3, 13: 4, 1000: 4} {
		l := branchPoint{root: &prefixGroup{count: float32(i)}, group: &prefixGroup{key: 10, count: float32(i)}}
		if got := min(l.byShare(4), l.paid(4, 4)); got != want {
			t.Errorf("%d conversations, all there are: deserves %d of 4, want %d: four pay for a copy", i, got, want)
		}
	}
}

func TestConversations_decay(t *testing.T) {
	x := newConversations()
	x.leave(10, 0)
	for range 400 {
		x.leave(10, 0)
	}
	for range 3000 {
		x.leave(0, 1)
	}
	if n := x.root.count; n >= decayCount {
		t.Errorf("got %v conversations, want below %d", n, decayCount)
	}
	l := x.findLocked(10)
	if l.group.count > 100 {
		t.Errorf("got %v conversations of an idle prefix, want them halved away", l.group.count)
	}
}

func TestConversations_bounds(t *testing.T) {
	x := newConversations()
	for key := uint64(1); key < 3*maxGroups; key++ {
		x.leave(key, 0)
		x.leave(key, 0)
	}
	if len(x.groups) > maxGroups {
		t.Errorf("got %d groups, want at most %d", len(x.groups), maxGroups)
	}
	if len(x.firsts) > maxSets*firstWays {
		t.Errorf("got %d blocks left once, want at most %d", len(x.firsts), maxSets*firstWays)
	}
}

// TestConversations_boundsOfAllModels: many models share the memory of one.
func TestConversations_boundsOfAllModels(t *testing.T) {
	var table modelTable
	one := table.of("0")
	for i := range 2 * maxModels {
		table.of(fmt.Sprint(i))
	}
	if n := len(table.models); n > maxModels {
		t.Errorf("got %d models, want at most %d", n, maxModels)
	}
	x := &one.conversations
	for key := uint64(1); key < 2*maxGroups; key++ {
		x.leave(key, 0)
		x.leave(key, 0)
	}
	if len(x.groups) != minGroups || len(x.firsts) != minSets*firstWays {
		t.Errorf("one of many has %d groups and %d blocks left once, want %d and %d", len(x.groups), len(x.firsts),
			minGroups, minSets*firstWays)
	}
}

// TestConversations_grow: blocks left once are kept while the table grows.
func TestConversations_grow(t *testing.T) {
	x := newConversations()
	const n = 20_000
	for key := uint64(1); key <= n; key++ {
		x.leave(key, 0)
	}
	kept := 0
	for key := uint64(1); key <= n; key++ {
		if _, known := x.firstLocked(key); known {
			kept++
		}
	}
	if kept < n*98/100 {
		t.Errorf("got %d of %d blocks kept, want 98 %%", kept, n)
	}
}

// An endpoint that joins a running fleet gets new conversations, but not all of them for
// a long time.
func TestConversations_joinerIsNotFlooded(t *testing.T) {
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
		t.Errorf("an endpoint that joined got %d of 40 conversations, want its quarter and at most 8 more", got)
	}
}
