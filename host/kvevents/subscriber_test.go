package kvevents

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/kvevents/fakepub"
)

func TestSubscriber_joinsHistory(t *testing.T) {
	for _, two := range []bool{false, true} {
		f := setup(t, fakepub.Config{TwoFrames: two, Topic: "kv"}, nil)
		f.publish(3)
		f.run()
		f.subscribed()
		f.expect(t, "0r 1r 2r")
		f.publish(2)
		f.expect(t, "0r 1r 2r 3 4")
		st := f.sub.Stats()
		if !st.Joined || st.Partial || st.Replayed != 3 || st.Messages < 5 || st.Decode.Stored < 5 {
			t.Errorf("%+v", st)
		}
	}
}

func TestSubscriber_lateJoiner(t *testing.T) {
	f := setup(t, fakepub.Config{BufferSteps: 2}, nil)
	f.publish(5)
	f.run()
	f.expect(t, "-0..3 3r 4r")
	if !f.sub.Stats().Partial {
		t.Error("not marked as partial")
	}
}

func TestSubscriber_withoutReplay(t *testing.T) {
	f := setup(t, fakepub.Config{}, func(c *Config) { c.Replay = "" })
	f.publish(3)
	f.run()
	f.subscribed()
	f.publish(1)
	f.expect(t, "-0..3 3")
	f.pub.Drop(2)
	f.publish(3)
	f.expect(t, "-0..3 3 !gap -4..6 6")
	f.pub.Restart()
	f.subscribed()
	f.publish(1)
	f.expect(t, "-0..3 3 !gap -4..6 6 !restart 0")
}

func TestSubscriber_gapIsRepaired(t *testing.T) {
	f := setup(t, fakepub.Config{}, nil)
	f.run()
	f.subscribed()
	f.publish(2)
	f.expect(t, "0 1")
	f.pub.Drop(3)
	f.publish(4)
	f.expect(t, "0 1 2r 3r 4r 5r")
	f.publish(1)
	f.expect(t, "0 1 2r 3r 4r 5r 6")
	if st := f.sub.Stats(); st.Gaps != 1 || st.Lost != 0 || st.Resets() != 0 || st.Partial {
		t.Errorf("%+v", st)
	}
}

func TestSubscriber_gapTooOld(t *testing.T) {
	f := setup(t, fakepub.Config{BufferSteps: 2}, nil)
	f.run()
	f.subscribed()
	f.publish(2)
	f.expect(t, "0 1")
	f.pub.Drop(5)
	f.publish(6)
	f.expect(t, "0 1 !gap -2..6 6r 7r")
	if st := f.sub.Stats(); !st.Partial || st.Lost != 4 || st.ResetsGap != 1 {
		t.Errorf("%+v", st)
	}
}

func TestSubscriber_gapWhileReplayIsAway(t *testing.T) {
	f := setup(t, fakepub.Config{},
		func(c *Config) { c.ProbeAfter = 5 * time.Millisecond; c.ProbeEvery = 5 * time.Millisecond })
	f.run()
	f.subscribed()
	f.publish(1)
	f.wait(t, "the first", func(w []string) bool { return len(w) > 0 })
	f.pub.RefuseReplay(true)
	f.pub.Drop(1)
	f.publish(2)
	f.expect(t, "0 !gap -1..2 2")
	f.pub.RefuseReplay(false) // then all of history is had again
	f.expect(t, "0 !gap -1..2 2 !resync 0r 1r 2r")
	if st := f.sub.Stats(); st.Partial || st.ReplayErrors == 0 || st.ResetsResync != 1 {
		t.Errorf("%+v", st)
	}
}

func TestSubscriber_reconnect(t *testing.T) {
	f := setup(t, fakepub.Config{}, nil)
	f.run()
	f.subscribed()
	f.publish(2)
	f.expect(t, "0 1")
	f.pub.Disconnect() // the same engine: nothing is lost or duplicated
	f.publish(2)
	f.expect(t, "0 1 2r 3r")
	f.subscribed()
	f.publish(1)
	f.expect(t, "0 1 2r 3r 4")
}

func TestSubscriber_restart(t *testing.T) {
	cases := []struct {
		name   string
		before int
		want   string
	}{
		{"counts lower", 1, "0 1 2 !restart 0r"},
		{"counts the same", 3, "0 1 2 !restart 0r 1r 2r"},
		{"has overtaken", 5, "0 1 2 !restart 0r 1r 2r 3r 4r"},
		{"has said nothing", 0, "0 1 2 !restart"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t, fakepub.Config{},
				func(c *Config) { c.BackoffMin = 50 * time.Millisecond; c.BackoffMax = 50 * time.Millisecond })
			f.run()
			f.subscribed()
			f.publish(3)
			f.expect(t, "0 1 2")
			f.pub.RestartWith(func() { f.ts += 50; f.publishLocked(c.before) })
			f.expect(t, c.want)
			f.subscribed()
			f.publish(1)
			f.expect(t, fmt.Sprint(c.want, " ", c.before))
		})
	}
}

func TestSubscriber_recountOnOneConnection(t *testing.T) {
	f := setup(t, fakepub.Config{}, nil)
	f.publish(2)
	f.run()
	f.subscribed()
	f.publish(1)
	f.expect(t, "0r 1r 2")
	f.pub.Recount()
	f.ts += 10
	f.publish(2)
	got := f.wait(t, "the new count", func(w []string) bool { return len(w) >= 6 })
	if s := strings.ReplaceAll(strings.Join(got, " "), "r", ""); s != "0 1 2 !estat 0 1" {
		t.Errorf("got %v", got)
	}
}

func TestSubscriber_lostTail(t *testing.T) {
	f := setup(t, fakepub.Config{},
		func(c *Config) { c.ProbeAfter = 20 * time.Millisecond; c.ProbeEvery = 20 * time.Millisecond })
	f.run()
	f.subscribed()
	f.publish(1)
	f.expect(t, "0")
	f.pub.Drop(2)
	f.publish(2) // and then silence: no gap will ever show
	f.expect(t, "0 1r 2r")
	if st := f.sub.Stats(); st.TailFound != 2 || st.Probes == 0 {
		t.Errorf("%+v", st)
	}
}

func TestSubscriber_replayKeepsNothing(t *testing.T) {
	f := setup(t, fakepub.Config{BufferSteps: -1},
		func(c *Config) { c.ProbeAfter = 20 * time.Millisecond; c.ProbeEvery = time.Hour })
	f.run()
	f.subscribed()
	f.publish(2)
	f.expect(t, "0 1 !restart") // it looks like one, once
	f.publish(1)
	f.expect(t, "0 1 !restart -0..2 2")
	n := f.sub.Stats().Probes
	f.pub.Disconnect()
	f.subscribed()
	f.publish(1)
	f.expect(t, "0 1 !restart -0..2 2 3")
	if st := f.sub.Stats(); st.Probes != n {
		t.Errorf("asked again: %+v", st)
	}
}

func TestSubscriber_orders(t *testing.T) {
	f := setup(t, fakepub.Config{}, nil)
	f.publish(2)
	f.run()
	f.subscribed()
	f.expect(t, "0r 1r")
	f.sub.Forget("sleep")
	f.expect(t, "0r 1r !sleep")
	f.publish(1)
	f.expect(t, "0r 1r !sleep 2")
	f.sub.Resync("start-time")
	f.expect(t, "0r 1r !sleep 2 !start-time 0r 1r 2r")
}

func TestSubscriber_highWaterMark(t *testing.T) {
	// the last may be lost too
	f := setup(t, fakepub.Config{HWM: 4}, func(c *Config) { c.ProbeAfter = 50 * time.Millisecond })
	f.hold = make(chan struct{})
	f.run()
	f.subscribed()
	const n = 400
	big := make([]uint32, 20_000) // 100 kB each: more than the sockets buffer
	for i := range big {
		big[i] = 1 << 20
	}
	for range n {
		f.ts++
		f.pub.PublishFunc(func(seq uint64) []byte {
			return fakepub.Batch(f.ts, fakepub.Stored{Hashes: []uint64{seq | 1<<40}, Tokens: big, Block: len(big)}.Map())
		})
	}
	close(f.hold)
	f.publish(1)
	words := f.wait(t, "all", func(w []string) bool { return len(w) > n })
	for i, w := range words {
		if strings.TrimSuffix(w, "r") != fmt.Sprint(i) {
			t.Fatalf("word %d is %s", i, w)
		}
	}
	if st := f.sub.Stats(); st.Replayed == 0 || st.Resets() != 0 {
		t.Errorf("nothing was dropped, so nothing was shown: %+v", st)
	}
}

func TestSubscriber_listens(t *testing.T) {
	f := setup(t, fakepub.Config{}, func(c *Config) { c.Listen, c.Endpoint = "tcp://127.0.0.1:0", "" })
	f.publish(1)
	f.run()
	for f.sub.Addr() == nil {
		if f.ctx.Err() != nil {
			t.Fatal("not listening")
		}
		time.Sleep(time.Millisecond)
	}
	addr := f.sub.Addr().String()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer f.pub.Disconnect()
	stranger, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(stranger, "GET / HTTP/1.1\r\n\r\n")
	io.ReadAll(stranger)
	stranger.Close()
	wg.Go(func() { f.pub.DialInto(f.ctx, addr) })
	f.subscribed()
	f.expect(t, "0r")
	f.publish(1)
	f.expect(t, "0r 1")
	wg.Go(func() { f.pub.DialInto(f.ctx, addr) }) // takes the place of the first
	f.subscribed()
	f.publish(1)
	f.wait(t, "the third", func(w []string) bool { return len(w) == 3 && strings.HasPrefix(w[2], "2") })
}

func TestSubscriber_hostilePeer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	said := [][]byte{
		[]byte("SSH-2.0-OpenSSH\r\n"),
		append(append(greeting(3, "NULL"), readyCommand("PUB")...), flagLong, 255, 255, 255, 255, 255, 255, 255, 255),
		append(append(greeting(3, "NULL"), readyCommand("PUB")...), 0, 3, 1, 2, 3, flagMore, 1, 2, 0, 1, 3),
	}
	go func() {
		for i := 0; ; i++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.Write(said[i%len(said)])
			io.CopyN(io.Discard, c, 64)
			c.Close()
		}
	}()
	s, err := New(Config{Endpoint: "tcp://" + ln.Addr().String(), BackoffMin: time.Millisecond,
		BackoffMax: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx, newRecorder()) }()
	deadline := time.Now().Add(10 * time.Second)
	for st := s.Stats(); st.DialErrors < 3 || st.Disconnects < 3; st = s.Stats() {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", st)
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != context.Canceled {
		t.Error(err)
	}
}

func TestConfig_Validate(t *testing.T) {
	for _, c := range []Config{{}, {Endpoint: "h:1", Listen: "h:2"}, {Endpoint: "nowhere"}, {Endpoint: "h:1",
		Replay: "x"}, {Endpoint: "h:1", DialTimeout: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v accepted", c)
		}
	}
}

// TestSubscriber_stress publishes, drops, disconnects and restarts at random
// while orders and Stats come from other goroutines. Whatever happens, within
// an epoch each number comes once and in order.
func TestSubscriber_stress(t *testing.T) {
	f := setup(t, fakepub.Config{BufferSteps: 50}, func(c *Config) {
		c.ProbeAfter, c.ProbeEvery, c.BackoffMax = time.Millisecond, time.Millisecond, 2*time.Millisecond
	})
	f.run()
	f.subscribed()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			f.sub.Stats()
			if i%50 == 10 {
				f.sub.Forget("forget")
			}
			if i%70 == 20 {
				f.sub.Resync("again")
			}
		}
	})
	for i := range 600 {
		switch i % 97 {
		case 13:
			f.pub.Drop(3)
		case 40:
			f.pub.Disconnect()
		case 60:
			f.pub.Drop(70)
			f.publish(70)
		case 80:
			f.pub.Restart()
			f.ts += 100
		}
		f.publish(1)
		if i%10 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	close(stop)
	wg.Wait()
	last := fmt.Sprint(f.pub.Seq() - 1)
	words := f.wait(t, "the last batch", func(w []string) bool {
		for len(w) > 0 && w[len(w)-1] == "!forget" { // an order may be carried out after the last batch
			w = w[:len(w)-1]
		}
		return len(w) > 0 && strings.TrimSuffix(w[len(w)-1], "r") == last
	})
	next := uint64(0)
	for i, w := range words {
		var a, b uint64
		switch {
		case w[0] == '!':
			if w != "!forget" {
				next = 0
			}
			continue
		case w[0] == '-':
			fmt.Sscanf(w, "-%d..%d", &a, &b)
			if i > 0 && words[i-1][0] != '!' {
				t.Fatalf("loss without a reset: %v", words[max(0, i-5):i+1])
			}
			next = b
			continue
		}
		fmt.Sscanf(w, "%d", &a)
		if strings.HasSuffix(w, "?") || a != next {
			t.Fatalf("want %d: %v", next, words[max(0, i-5):i+1])
		}
		next++
	}
}
