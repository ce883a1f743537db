package router

import (
	"fmt"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/replay/virtual"
	"github.com/kvasir-router/kvasir/host/simengine"
)

// bench is a policy before three engines, with requests in flight on them.
type bench struct {
	t *testing.T
	r virtual.Router
}

// newBench returns a policy whose engines have inflight requests of 1,000 tokens each.
func newBench(t *testing.T, name string, set map[string]float64, inflight ...int) *bench {
	t.Helper()
	engine := virtual.Engine{Timing: simengine.Timing{A: 0.1}, BlockTokens: 16, CacheTokens: 1 << 16}
	p, err := FindPeer(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.New([]virtual.Engine{engine, engine, engine}, set, 1)
	if err != nil {
		t.Fatal(err)
	}
	loads := r.(*peerRouter).loads
	for i, n := range inflight {
		for range n {
			loads[i].Charge("t", 1000, 1000)
		}
	}
	return &bench{t, r}
}

// place returns the engine of a request of 1,024 tokens.
func (b *bench) place(r virtual.Request) int {
	b.t.Helper()
	r.Prompt = 1024
	at, err := b.r.Place(time.Second, &r)
	if err != nil {
		b.t.Fatal(err)
	}
	return at
}

// holds makes an engine hold n blocks of the chain that requests have.
func (b *bench) holds(engine, n int) {
	b.r.Events(0, engine, []simengine.Event{{Seq: &simengine.Sequence{Hashes: testChain}, From: 0, To: n}})
}

// testChain is the chain of 64 blocks of the test's requests.
var testChain = func() (c []uint64) {
	for i := range uint64(64) {
		c = append(c, (i+1)*0x9e3779b97f4a7c15)
	}
	return c
}()

// TestPeers_choices: each policy chooses by what it is named for.
func TestPeers_choices(t *testing.T) {
	warm := virtual.Request{Session: 1, Blocks: testChain}
	for _, c := range []struct {
		policy   string
		set      map[string]float64
		inflight []int
		held     int // blocks on engine 2
		want     int
	}{
		{"leastinflight", nil, []int{2, 0, 1}, 0, 1},
		{"leastinflight", nil, []int{2, 0, 1}, 60, 1},
		{"p2c", map[string]float64{"choices": 64}, []int{2, 1, 0}, 0, 2},
		{"sticky", nil, []int{2, 1, 0}, 0, 2},
		{"longestprefix", nil, []int{0, 0, 9}, 1, 2},
		{"longestprefix", nil, []int{1, 0, 1}, 0, 1},
		{"lmetric", nil, []int{0, 0, 0}, 60, 2},
		{"e2", nil, []int{1, 0, 1}, 0, 1},
		{"e2", nil, []int{1, 1, 1}, 60, 2},
		{"e2", nil, []int{1, 2, 9}, 60, 0}, // the holder has more than rebalance times the least load
		{"llmd", nil, []int{0, 0, 0}, 60, 2},
		{"sglang", nil, []int{1, 0, 1}, 60, 2},
		{"sglang", nil, []int{1, 0, 1}, 20, 1},  // below the threshold: the least loaded
		{"sglang", nil, []int{1, 0, 40}, 60, 1}, // loads differ by more than abs
		{"dynamo", nil, []int{1, 0, 2}, 0, 1},
		{"dynamo", nil, []int{1, 1, 1}, 60, 2},
	} {
		b := newBench(t, c.policy, c.set, c.inflight...)
		if c.held > 0 {
			b.holds(2, c.held)
		}
		if at := b.place(warm); at != c.want {
			t.Errorf("%s, in flight %v, %d blocks on engine 2: chose %d, want %d", c.policy, c.inflight, c.held, at, c.want)
		}
	}
}

// TestPeers_sequence: policies with a memory.
func TestPeers_sequence(t *testing.T) {
	b := newBench(t, "roundrobin", nil)
	for i := range 7 {
		if at := b.place(virtual.Request{}); at != i%3 {
			t.Errorf("round robin: request %d on engine %d", i, at)
		}
	}
	b = newBench(t, "sticky", nil)
	home := b.place(virtual.Request{Session: 5})
	for range 5 {
		if at := b.place(virtual.Request{Session: 5}); at != home {
			t.Errorf("sticky: session moved from %d to %d", home, at)
		}
	}
	b = newBench(t, "stickyspill", map[string]float64{"ratio": 1.5, "slack": 500})
	home = b.place(virtual.Request{Session: 5})
	at := home
	for range 3 {
		at = b.place(virtual.Request{Session: 5})
		if at != home {
			break
		}
	}
	if at == home {
		t.Errorf("a session does not spill from engine %d", home)
	}
}

// TestPeers_charges: a request is charged until it is done, its work until its first token;
// what it computes is predicted from the blocks that the engine holds.
func TestPeers_charges(t *testing.T) {
	b := newBench(t, "longestprefix", nil)
	b.holds(1, 32)
	r := virtual.Request{Prompt: 1024, Blocks: testChain, Output: 8}
	at, err := b.r.Place(0, &r)
	if err != nil || at != 1 || r.Predicted != 512 || r.Uncached != 512 {
		t.Fatalf("engine %d, %v, %d predicted, %d uncached; want 1, 512, 512", at, err, r.Predicted, r.Uncached)
	}
	r.Engine = at
	l := b.r.(*peerRouter).loads[at]
	if l.Inflight() != 1 || l.Outstanding() != 512 {
		t.Errorf("placed: %d in flight, %d outstanding", l.Inflight(), l.Outstanding())
	}
	b.r.FirstToken(time.Second, &r)
	if l.Inflight() != 1 || l.Outstanding() != 0 {
		t.Errorf("first token: %d in flight, %d outstanding", l.Inflight(), l.Outstanding())
	}
	b.r.Done(2*time.Second, &r)
	if l.Inflight() != 0 || l.KVActive() != 0 || r.Route != nil {
		t.Errorf("done: %d in flight, %d tokens of KV memory", l.Inflight(), l.KVActive())
	}
	b.r.Events(0, 1, []simengine.Event{{Removed: testChain[0]}})
	for range 2 * rotateTicks { // predictions of the first request end, too
		b.r.Tick(3 * time.Second)
	}
	r = virtual.Request{Prompt: 1024, Blocks: testChain}
	if _, err := b.r.Place(4*time.Second, &r); err != nil || r.Predicted != 0 {
		t.Errorf("%v, %d predicted after the first block was removed", err, r.Predicted)
	}
}

// TestPeer_unknown: a constant or policy that does not exist is an error.
func TestPeer_unknown(t *testing.T) {
	p := Peers()[0]
	if _, err := p.New(nil, map[string]float64{"x": 1}, 1); fmt.Sprint(err) !=
		`router: policy roundrobin has no constant "x"` {
		t.Error(err)
	}
	if _, err := FindPeer("x"); err == nil {
		t.Error("found a policy x")
	}
}
