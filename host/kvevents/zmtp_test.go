package kvevents

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/kvevents/fakepub"
)

// scripted is a connection whose peer has already said all it will say.
type scripted struct {
	net.Conn
	in  *bytes.Reader
	out bytes.Buffer
}

func (c *scripted) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *scripted) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }

func greeting(version byte, mechanism string) []byte {
	g := make([]byte, 64)
	g[0], g[9], g[10] = 0xff, 0x7f, version
	copy(g[12:], mechanism)
	return g
}

func readyCommand(role string) []byte {
	body := appendProperty([]byte("\x05READY"), "Identity", "me")
	body = appendProperty(body, "socket-type", role)
	return append([]byte{flagCommand, byte(len(body))}, body...)
}

func TestHandshake(t *testing.T) {
	ok := greeting(3, "NULL")
	errCmd := append([]byte{flagCommand, 12}, "\x05ERROR\x05nope!"...)
	cases := []struct {
		name string
		peer []byte
		want string
	}{
		{"libzmq", append(ok[:64:64], readyCommand("PUB")...), ""},
		{"xpub", append(greeting(3, "NULL"), readyCommand("XPUB")...), ""},
		{"router", append(greeting(3, "NULL"), readyCommand("ROUTER")...), errSocketType.Error()},
		{"http", []byte("HTTP/1.1 400 Bad Request\r\n"), errGreeting.Error()},
		{"old", greeting(1, "NULL")[:12], errGreeting.Error()},
		{"curve", append(greeting(3, "CURVE"), readyCommand("PUB")...), errMechanism.Error()},
		{"refused", append(greeting(3, "NULL"), errCmd...), "peer refused"},
		{"message instead", append(greeting(3, "NULL"), 0, 1, 'x'), errHandshake.Error()},
		{"no socket type", append(greeting(3, "NULL"), "\x04\x06\x05READY"...), errHandshake.Error()},
		{"property past the end", append(greeting(3, "NULL"), "\x04\x08\x05READY\x0bS"...), errHandshake.Error()},
		{"huge ready", append(greeting(3, "NULL"), 6, 0, 0, 0, 0, 0, 1, 0, 0), ErrFrameTooLarge.Error()},
		{"silent", nil, io.EOF.Error()},
	}
	for _, c := range cases {
		_, err := handshake(&scripted{in: bytes.NewReader(c.peer)}, "SUB", pubTypes, 1<<20, time.Second)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// talk returns a connection past its handshake, whose peer goes on with b.
func talk(b []byte, limit int) (*conn, *scripted, error) {
	c := &scripted{in: bytes.NewReader(append(append(greeting(3, "NULL"), readyCommand("PUB")...), b...))}
	k, err := handshake(c, "SUB", pubTypes, limit, time.Second)
	c.out.Reset()
	return k, c, err
}

func frameBytes(flags byte, body []byte) []byte {
	if len(body) < 256 {
		return append([]byte{flags, byte(len(body))}, body...)
	}
	return append(binary.BigEndian.AppendUint64([]byte{flags | flagLong}, uint64(len(body))), body...)
}

func TestRecv(t *testing.T) {
	big := bytes.Repeat([]byte("abcdefgh"), 40_000)
	var in bytes.Buffer
	fakepub.WriteMessage(&in, []byte("kv"), []byte("12345678"), big)
	in.Write(frameBytes(flagCommand, []byte("\x04PING\x00\x0actx")))
	in.Write(frameBytes(flagCommand, []byte("\x09SUBSCRIBE")))
	fakepub.WriteMessage(&in, nil, nil)
	k, c, err := talk(in.Bytes(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	f, err := k.recv()
	if err != nil || len(f) != 3 || string(f[0]) != "kv" || string(f[1]) != "12345678" || !bytes.Equal(f[2], big) {
		t.Fatalf("%d frames, %v", len(f), err)
	}
	if f, err := k.recv(); len(f) != 0 || err != nil || c.out.String() != "\x04\x08\x04PONGctx" {
		t.Errorf("ping: %v, %v, answered %q", f, err, c.out.String())
	}
	if f, err := k.recv(); len(f) != 0 || err != nil {
		t.Errorf("other command: %v, %v", f, err)
	}
	if f, err := k.recv(); len(f) != 2 || len(f[0])+len(f[1]) != 0 || err != nil {
		t.Errorf("empty frames: %v, %v", f, err)
	}
	if _, err := k.recv(); err != io.EOF {
		t.Errorf("end: %v", err)
	}
}

func TestRecv_bounds(t *testing.T) {
	many := bytes.Repeat([]byte{flagMore, 0}, maxFrames+1)
	cases := []struct {
		name string
		in   []byte
		want error
	}{
		{"long frame", frameBytes(0, make([]byte, 1001)), ErrFrameTooLarge},
		{"sum of frames", append(frameBytes(flagMore, make([]byte, 600)), frameBytes(0, make([]byte, 600))...),
			ErrFrameTooLarge},
		{"all ones", []byte{flagLong, 255, 255, 255, 255, 255, 255, 255, 255}, ErrFrameTooLarge},
		{"many frames", many, errFrames},
		{"command inside", append([]byte{flagMore, 0}, frameBytes(flagCommand, []byte("\x01x"))...), errFrames},
		{"cut", []byte{0, 200, 1, 2}, io.ErrUnexpectedEOF},
	}
	for _, c := range cases {
		k, _, err := talk(c.in, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = k.recv(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	// A frame that is announced large but does not come takes little memory.
	k, _, err := talk(append([]byte{flagLong, 0, 0, 0, 0, 1, 0, 0, 0}, make([]byte, 10)...), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.recv(); err == nil || cap(k.buf) > 64<<10 {
		t.Errorf("%v, %d bytes kept for 10 that came", err, cap(k.buf))
	}
}

func TestParseReply(t *testing.T) {
	seq := []byte{0, 0, 0, 0, 0, 0, 1, 0}
	end := bytes.Repeat([]byte{255}, 8)
	good := map[uint64][][][]byte{
		256: {{nil, seq, {1}}, {nil, {'t'}, seq, {1}}, {nil, nil, seq, {1}}, {seq, {1}}, {{'t'}, seq, {1}}, {nil,
			[]byte("topic678"), seq, {1}}},
		endSeq: {{nil, end, nil}, {nil, nil, end, nil}, {end, nil}},
	}
	for want, cases := range good {
		for _, f := range cases {
			if got, _, err := parseReply(f); got != want || err != nil {
				t.Errorf("%q: %d, %v, want %d", f, got, err, want)
			}
		}
	}
	for _, f := range [][][]byte{{}, {seq}, {nil, nil}, {nil, {1}, nil}, {nil, nil, nil, seq, nil}, {{'x'}, nil, seq,
		nil}} {
		if _, _, err := parseReply(f); err != errReplay {
			t.Errorf("%q: %v", f, err)
		}
	}
}

func TestParseAddr(t *testing.T) {
	for in, want := range map[string]string{"tcp://h:1": "tcp h:1", "h:1": "tcp h:1", "tcp://[::1]:5": "tcp [::1]:5",
		"ipc:///a/b": "unix /a/b",
		"tcp://h":    "", "ipc://": "", "inproc://x": "", "": "", "udp://h:1": ""} {
		network, addr, err := parseAddr(in)
		if got := strings.TrimSpace(network + " " + addr); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}

func FuzzRecv(f *testing.F) {
	var in bytes.Buffer
	fakepub.WriteMessage(&in, []byte("kv"), []byte("12345678"), make([]byte, 300))
	f.Add(in.Bytes(), true)
	f.Add(append(greeting(3, "NULL"), readyCommand("PUB")...), false)
	f.Add(frameBytes(flagCommand, []byte("\x04PING\x00\x0actx")), true)
	f.Fuzz(func(t *testing.T, in []byte, past bool) {
		var k *conn
		var err error
		if past {
			k, _, err = talk(in, 4096)
		} else {
			k, err = handshake(&scripted{in: bytes.NewReader(in)}, "SUB", pubTypes, 4096, time.Second)
		}
		for err == nil {
			var frames [][]byte
			frames, err = k.recv()
			total := 0
			for _, fr := range frames {
				total += len(fr)
			}
			if total > 4096 || len(frames) > maxFrames {
				t.Fatal("bounds passed")
			}
			parseReply(frames)
		}
	})
}
