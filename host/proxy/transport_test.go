package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// upPair is a connection to an engine and the engine's end.
func upPair(t *testing.T) (*upConn, net.Conn) {
	t.Helper()
	w, err := newWatcher()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); w.run() }()
	ln := listen(t)
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	u := &upConn{c: near, s: &stream{}}
	if u.tr, err = newTransport(u, w); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.close(); far.Close(); w.close(); <-ended })
	return u, far
}

// More parts than one writev takes, and more bytes than a socket's buffer.
func TestTransport_sendParts(t *testing.T) {
	for _, size := range []int{1, 7, 16 << 10} {
		u, far := upPair(t)
		var parts [][]byte
		var want []byte
		for i := range 3000 {
			p := bytes.Repeat([]byte{byte(i)}, i%(size+1))
			parts = append(parts, p)
			want = append(want, p...)
		}
		got := make(chan []byte)
		go func() {
			b := make([]byte, len(want))
			io.ReadFull(far, b)
			io.WriteString(far, "x") // the answer
			got <- b
		}()
		u.by = time.Now().Add(10 * time.Second)
		u.arm()
		if err := u.tr.send(parts, 10*time.Second); err != nil {
			t.Fatal(size, err)
		}
		for len(u.data()) == 0 {
			if err := u.tr.fill(); err != nil {
				t.Fatal(size, err)
			}
		}
		if !bytes.Equal(<-got, want) {
			t.Errorf("size %d: not what was sent", size)
		}
	}
}

// An old timer that fires is no timeout; the real one is.
func TestTransport_deadlines(t *testing.T) {
	u, far := upPair(t)
	u.by = time.Now().Add(30 * time.Millisecond)
	u.arm()
	u.by = time.Now().Add(150 * time.Millisecond)
	u.arm() // leaves the earlier timer
	go func() {
		time.Sleep(60 * time.Millisecond) // between the two
		io.WriteString(far, "x")
	}()
	if err := u.tr.fill(); err != nil || string(u.data()) != "x" {
		t.Fatalf("%v %q", err, u.data())
	}
	from := time.Now()
	u.by = from.Add(50 * time.Millisecond)
	u.arm()
	if err := u.tr.fill(); !errors.Is(err, errTimeout) || time.Since(from) < 50*time.Millisecond {
		t.Fatalf("%v after %v", err, time.Since(from))
	}
	u.s.why.Store(stopGone)
	u.by = time.Now().Add(time.Hour)
	u.setRead(past)
	if err := u.tr.fill(); !errors.Is(err, errClientGone) {
		t.Fatal(err)
	}
}

func TestTransport_alive(t *testing.T) {
	for _, tc := range []struct {
		name  string
		f     func(net.Conn)
		alive bool
	}{
		{"quiet", func(net.Conn) {}, true},
		{"closed", func(c net.Conn) { c.Close() }, false},
		{"reset", func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() }, false},
		{"half_closed", func(c net.Conn) { c.(*net.TCPConn).CloseWrite() }, false},
		{"talks", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 408 X\r\n\r\n") }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u, far := upPair(t)
			u.tr.idle()
			tc.f(far)
			if tc.alive {
				if !u.tr.alive() {
					t.Error("dead")
				}
				u.tr.idle()
				if !u.tr.alive() {
					t.Error("dead at the second time")
				}
				return
			}
			waitFor(t, func() bool {
				alive := u.tr.alive()
				if alive {
					u.tr.idle()
				}
				return !alive
			}, func() string { return "alive" })
		})
	}
}

func TestChunkDecoder_allSplits(t *testing.T) {
	in := "5\r\nhello\r\n6;ext=\"x\"\r\n world\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\nNEXT"
	for step := 1; step < len(in); step++ {
		var d chunkDecoder
		out, used := "", 0
		for i := 0; i < len(in) && !d.done; i += step {
			p, n, err := d.decode([]byte(in[i:min(len(in), i+step)]))
			if err != nil {
				t.Fatal(step, err)
			}
			out += string(p)
			used += n
		}
		if out != "hello world0123456789" || in[used:] != "NEXT" {
			t.Fatal(step, out, used)
		}
	}
	for _, bad := range []string{"5\nhello", "g\r\n", "5\r\nhelloX", "\r\n", " 5\r\nhello\r\n", "5 \r\nhello\r\n",
		"0x5\r\nhello",
		"-1\r\n", "fffffffffffffffff\r\n", "5;\n", "0\r\nA\n\r\n", "0\r\n\n"} {
		var d chunkDecoder
		if _, _, err := d.decode([]byte(bad)); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestMappedBuffersGoBack(t *testing.T) {
	var pool bodyPool
	var bs []*[]byte
	for range 8 {
		b := pool.get(400 << 10)
		for j := 0; j < len(*b); j += 4096 {
			(*b)[j] = 1
		}
		bs = append(bs, b)
	}
	for _, b := range bs {
		pool.put(b)
	}
	p := &pool.mapped[class(400<<10)]
	waitFor(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.free) == 0 && !p.timer
	}, func() string { return "kept" })
}

// Bodies that one proxy holds count against its own limit only.
func TestBodyPool_perProxy(t *testing.T) {
	x, y := start(t, newRouter()), start(t, newRouter())
	b := x.bodies.get(1 << 20)
	if h := x.Stats().BodyBytesHeld; h != 1<<20 {
		t.Errorf("got %d bytes held, want %d", h, 1<<20)
	}
	if h := y.Stats().BodyBytesHeld; h != 0 {
		t.Errorf("the other proxy holds %d bytes", h)
	}
	x.bodies.put(b)
}
