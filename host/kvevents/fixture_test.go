package kvevents

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/kvevents/fakepub"
)

// recorder is a Sink that records its calls as words: "12" a live
// batch, "12r" a replayed one, "!restart" a reset, "-3..5" a loss. A batch's one
// event must store the hash seq+1 of the epoch, which proves that payload and
// number belong together.
type recorder struct {
	mu      sync.Mutex
	changed chan struct{}
	words   []string
	joined  int
	hold    chan struct{} // if not nil, Batch waits for it
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{}, 1)} }

func (r *recorder) add(w string) {
	r.mu.Lock()
	r.words = append(r.words, w)
	r.mu.Unlock()
	r.wake()
}

func (r *recorder) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *recorder) Batch(b *Batch) {
	if r.hold != nil {
		<-r.hold
	}
	w := fmt.Sprint(b.Seq)
	if b.Replayed {
		w += "r"
	}
	if len(b.Events) != 1 || b.Events[0].Hashes[0]&0xffffffff != b.Seq {
		w += "?"
	}
	r.add(w)
}
func (r *recorder) Joined() {
	r.mu.Lock()
	r.joined++
	r.mu.Unlock()
	r.wake()
}
func (r *recorder) Reset(reason string)  { r.add("!" + reason) }
func (r *recorder) Lost(from, to uint64) { r.add(fmt.Sprintf("-%d..%d", from, to)) }

func (r *recorder) get() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.words)
}

// wait waits until done accepts the words so far.
func (r *recorder) wait(t *testing.T, what string, done func(words []string) bool) []string {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		if w := r.get(); done(w) {
			return w
		}
		select {
		case <-r.changed:
		case <-timeout:
			t.Fatalf("timed out waiting for %s; got %v", what, r.get())
		}
	}
}

// expect waits for exactly the given words, in one string.
func (r *recorder) expect(t *testing.T, words string) {
	t.Helper()
	want := strings.Fields(words)
	got := r.wait(t, words, func(w []string) bool { return len(w) >= len(want) })
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// fixture is a publisher, a subscriber to it, and the record of the subscriber's calls.
type fixture struct {
	*recorder
	t    *testing.T
	pub  *fakepub.Publisher
	sub  *Subscriber
	ctx  context.Context
	ts   float64
	subs int
}

func setup(t *testing.T, pc fakepub.Config, adjust func(*Config)) *fixture {
	t.Helper()
	pub, err := fakepub.New(pc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pub.Close)
	cfg := Config{Endpoint: pub.Endpoint(), Replay: pub.Replay(), BackoffMin: time.Millisecond,
		BackoffMax:  20 * time.Millisecond,
		DialTimeout: 5 * time.Second, ReplayTimeout: 5 * time.Second, ProbeAfter: -1}
	if adjust != nil {
		adjust(&cfg)
	}
	sub, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return &fixture{recorder: newRecorder(), t: t, pub: pub, sub: sub, ctx: ctx, ts: 1000}
}

// run starts the subscriber; it ends, and is waited for, with the test.
func (f *fixture) run() {
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan error, 1)
	go func() { done <- f.sub.Run(ctx, f.recorder) }()
	f.t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				f.t.Errorf("Run: %v", err)
			}
		case <-time.After(10 * time.Second):
			f.t.Error("Run does not end")
		}
	})
}

// subscribed waits for the next subscription, and until it has joined history.
func (f *fixture) subscribed() {
	f.t.Helper()
	f.subs++
	if err := f.pub.WaitSubscribers(f.ctx, f.subs); err != nil {
		f.t.Fatal(err)
	}
	f.wait(f.t, "the join", func([]string) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.joined >= f.subs
	})
}

// publish publishes n batches, numbered on from the publisher's last.
func (f *fixture) publish(n int) {
	for range n {
		f.ts += 0.25
		f.pub.PublishFunc(func(seq uint64) []byte {
			return fakepub.Batch(f.ts, fakepub.Stored{Hashes: []uint64{seq | uint64(f.ts)<<32}, Tokens: []uint32{1},
				Block: 1}.Map())
		})
	}
}

// publishLocked publishes inside RestartWith.
func (f *fixture) publishLocked(n int) {
	for i := range uint64(n) {
		f.ts += 0.25
		f.pub.KeepLocked(fakepub.Batch(f.ts, fakepub.Stored{Hashes: []uint64{i | uint64(f.ts)<<32}, Tokens: []uint32{1},
			Block: 1}.Map()))
	}
}
