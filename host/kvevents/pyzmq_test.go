package kvevents

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// oracle is scripts/publisher.py: libzmq, msgspec and msgpack.
type oracle struct {
	t    *testing.T
	in   io.Writer
	out  *bufio.Scanner
	want map[uint64][]string // lines of each message of this life
	Pub  int                 `json:"pub"`
	Rep  int                 `json:"replay"`
}

func newOracle(t *testing.T, seed int) *oracle {
	t.Helper()
	cmd := exec.Command(testdeps.Need(t, "venv-kvevents", "bin", "python"), "scripts/publisher.py", fmt.Sprint(seed))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	o := &oracle{t: t, in: in, out: bufio.NewScanner(out), want: map[uint64][]string{}}
	o.out.Buffer(nil, 64<<20)
	o.read(o)
	return o
}

func (o *oracle) read(v any) {
	o.t.Helper()
	if !o.out.Scan() {
		o.t.Fatal("publisher.py has ended: ", o.out.Err())
	}
	if err := json.Unmarshal(o.out.Bytes(), v); err != nil {
		o.t.Fatal(err)
	}
}

// do has a command carried out and takes down what was published.
func (o *oracle) do(format string, args ...any) {
	o.t.Helper()
	fmt.Fprintf(o.in, format+"\n", args...)
	var answer [][2]json.RawMessage
	o.read(&answer)
	for _, a := range answer {
		var seq uint64
		var lines []string
		if json.Unmarshal(a[0], &seq) != nil || json.Unmarshal(a[1], &lines) != nil {
			o.t.Fatalf("%s", a)
		}
		o.want[seq] = lines
	}
}

// lines is a Sink that keeps the lines of each message since the last Reset.
type lines struct {
	*recorder
	got map[uint64][]string
}

func (l *lines) Batch(b *Batch) {
	out := []string{}
	for i := range b.Events {
		out = append(out, line(&b.Events[i]))
	}
	l.mu.Lock()
	if _, twice := l.got[b.Seq]; twice {
		out = append(out, "duplicate")
	}
	l.got[b.Seq] = out
	l.mu.Unlock()
	l.wake()
}

func (l *lines) Reset(reason string) {
	l.mu.Lock()
	clear(l.got)
	l.mu.Unlock()
	l.add("!" + reason)
}

// whole waits until all that was published has come, and compares.
func (l *lines) whole(t *testing.T, what string, o *oracle) {
	t.Helper()
	l.wait(t, what, func([]string) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.got) >= len(o.want)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for seq, want := range o.want {
		if !slices.Equal(l.got[seq], want) {
			t.Fatalf("%s: message %d:\ngot  %q\nwant %q", what, seq, l.got[seq], want)
		}
	}
}

// TestSubscriber_pyzmq follows a publisher on libzmq that encodes random events
// with msgspec and msgpack, through late join, gaps, bursts and restarts.
func TestSubscriber_pyzmq(t *testing.T) {
	o := newOracle(t, 1)
	o.do(`{"cmd":"publish","n":400}`)
	s, err := New(Config{Endpoint: fmt.Sprintf("tcp://127.0.0.1:%d", o.Pub), Replay: fmt.Sprintf("tcp://127.0.0.1:%d",
		o.Rep),
		BackoffMin: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond, ProbeAfter: 700 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l := &lines{newRecorder(), map[uint64][]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l) }()
	l.whole(t, "history", o)
	o.do(`{"cmd":"publish","n":200}`)
	l.whole(t, "live", o)
	o.do(`{"cmd":"publish","n":60,"drop":true}`)
	o.do(`{"cmd":"publish","n":10}`)
	l.whole(t, "gap", o)
	o.do(`{"cmd":"publish","n":7,"drop":true}`)
	l.whole(t, "lost tail", o)
	o.do(`{"cmd":"burst","n":8000}`)
	l.whole(t, "burst", o)
	clear(o.want)
	o.do(`{"cmd":"restart","n":100,"burst":9000}`) // more than the first life had
	o.do(`{"cmd":"publish","n":50}`)
	l.wait(t, "the restart to be seen", func(w []string) bool { return slices.Contains(w, "!"+ReasonRestart) })
	l.whole(t, "second life", o)
	clear(o.want)
	o.do(`{"cmd":"restart","n":3}`)
	l.wait(t, "the second restart", func([]string) bool { return s.Stats().ResetsRestart == 2 })
	o.do(`{"cmd":"publish","n":5}`)
	l.whole(t, "third life", o)
	cancel()
	if err := <-done; err != context.Canceled {
		t.Error(err)
	}
	st := s.Stats()
	if st.Lost != 0 || st.ResetsGap+st.ResetsResync != 0 || st.Malformed != 0 || st.Gaps == 0 || st.TailFound < 7 {
		t.Errorf("%+v", st)
	}
	t.Logf("%d messages, %d replayed, %d duplicates passed over, %d gaps, %d probes, %d bad events",
		st.Messages, st.Replayed, st.Duplicates, st.Gaps, st.Probes, st.Decode.Failed())
}
