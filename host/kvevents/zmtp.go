package kvevents

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Errors of the ZMTP peer. Each ends the connection.
var (
	ErrFrameTooLarge = errors.New("kvevents: peer announced a frame above the limit")
	errGreeting      = errors.New("kvevents: peer does not support ZMTP 3")
	errMechanism     = errors.New("kvevents: peer requires a security mechanism other than NULL")
	errHandshake     = errors.New("kvevents: peer's handshake is not READY")
	errSocketType    = errors.New("kvevents: peer has another socket type")
	errFrames        = errors.New("kvevents: message has too many frames or contains a command")
)

// Frame flags (ZMTP 3.0, rfc.zeromq.org/spec/23).
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// maxFrames bounds a message. Events have three frames, replay replies four.
const maxFrames = 8

// maxKeptMessage bounds the receive buffer kept between messages.
const maxKeptMessage = 4 << 20

// conn is one ZMTP connection after its handshake. It is for one goroutine; others
// may close c and set its deadlines.
type conn struct {
	c       net.Conn
	r       *bufio.Reader
	limit   int           // bytes in one message
	timeout time.Duration // for the rest of a message that has begun
	buf     []byte        // the message being read
	ends    [maxFrames]int
	frames  [maxFrames][]byte
}

// handshake exchanges the ZMTP greeting and READY as a socket of type role
// ("SUB", "DEALER") with a peer of one of the types peers, all within timeout.
// It does not close c on error.
func handshake(c net.Conn, role string, peers []string, limit int, timeout time.Duration) (*conn, error) {
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	k := &conn{c: c, r: bufio.NewReaderSize(c, 64<<10), limit: limit, timeout: timeout}
	var g [64]byte
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], "NULL")
	if _, err := c.Write(g[:]); err != nil {
		return nil, err
	}
	if err := k.greeting(); err != nil {
		return nil, err
	}
	ready := appendProperty([]byte("\x05READY"), "Socket-Type", role)
	if err := k.send(flagCommand, ready); err != nil {
		return nil, err
	}
	if err := k.ready(peers); err != nil {
		return nil, err
	}
	return k, c.SetDeadline(time.Time{})
}

// greeting reads the peer's 64 bytes. A peer of ZMTP 2 or less sends 12 and is
// refused after 11.
func (k *conn) greeting() error {
	var g [64]byte
	if _, err := io.ReadFull(k.r, g[:11]); err != nil {
		return err
	}
	if g[0] != 0xff || g[9]&1 == 0 || g[10] < 3 {
		return errGreeting
	}
	if _, err := io.ReadFull(k.r, g[11:]); err != nil {
		return err
	}
	if strings.TrimRight(string(g[12:32]), "\x00") != "NULL" {
		return errMechanism
	}
	return nil
}

func appendProperty(b []byte, name, value string) []byte {
	b = append(b, byte(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// maxCommand bounds commands: READY carries a socket type and an identity.
const maxCommand = 4 << 10

// ready reads the peer's READY command and checks its socket type.
func (k *conn) ready(peers []string) error {
	k.buf = k.buf[:0]
	flags, body, err := k.frame(maxCommand)
	if err != nil {
		return err
	}
	if flags&flagCommand == 0 {
		return errHandshake
	}
	name, props, ok := cutCommand(body)
	if ok && name == "ERROR" {
		reason := props
		if len(reason) > 0 {
			reason = reason[1:]
		}
		return fmt.Errorf("kvevents: peer refused: %.100q", reason)
	}
	if !ok || name != "READY" {
		return errHandshake
	}
	for len(props) > 0 {
		key, rest, ok := cutSized(props, 1)
		if !ok {
			return errHandshake
		}
		value, rest, ok := cutSized(rest, 4)
		if !ok {
			return errHandshake
		}
		props = rest
		if !strings.EqualFold(string(key), "Socket-Type") {
			continue
		}
		for _, p := range peers {
			if p == string(value) {
				return nil
			}
		}
		return fmt.Errorf("%w: %.20q", errSocketType, value)
	}
	return errHandshake
}

// cutCommand splits a command into its name and data.
func cutCommand(b []byte) (name string, data []byte, ok bool) {
	n, data, ok := cutSized(b, 1)
	return string(n), data, ok
}

// cutSized cuts a value that is preceded by its length, of 1 or 4 bytes.
func cutSized(b []byte, width int) (value, rest []byte, ok bool) {
	if len(b) < width {
		return nil, nil, false
	}
	n := uint64(b[0])
	if width == 4 {
		n = uint64(binary.BigEndian.Uint32(b))
	}
	b = b[width:]
	if n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// send writes one frame.
func (k *conn) send(flags byte, body []byte) error {
	b := make([]byte, 0, 9+len(body))
	if len(body) < 256 {
		b = append(b, flags, byte(len(body)))
	} else {
		b = binary.BigEndian.AppendUint64(append(b, flags|flagLong), uint64(len(body)))
	}
	_, err := k.c.Write(append(b, body...))
	return err
}

// subscribe asks a publisher for all topics that begin with topic, in the form of
// ZMTP 3.0: a message whose first byte is 1.
func (k *conn) subscribe(topic string) error {
	return k.send(0, append([]byte{1}, topic...))
}

// requestReplay asks a publisher's replay socket for every message from seq on.
// The empty frame comes first: a ROUTER must see identity, empty, sequence.
func (k *conn) requestReplay(seq uint64) error {
	if err := k.c.SetWriteDeadline(time.Now().Add(k.timeout)); err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint64([]byte{flagMore, 0, 0, 8}, seq)
	_, err := k.c.Write(b)
	return err
}

// frame reads one frame onto the end of k.buf, at most max bytes, and returns a
// view that lives until k.buf grows.
func (k *conn) frame(max int) (flags byte, body []byte, err error) {
	if flags, err = k.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	var n uint64
	if flags&flagLong != 0 {
		h, err := k.r.Peek(8)
		if err != nil {
			return 0, nil, err
		}
		n = binary.BigEndian.Uint64(h)
		k.r.Discard(8)
	} else {
		c, err := k.r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		n = uint64(c)
	}
	if n > uint64(max) {
		return 0, nil, ErrFrameTooLarge
	}
	body, err = k.fill(int(n))
	return flags, body, err
}

// fill reads n bytes onto the end of k.buf. The buffer grows with what arrived,
// not with what was announced: at most a doubling ahead.
func (k *conn) fill(n int) ([]byte, error) {
	start := len(k.buf)
	for n > 0 {
		if len(k.buf) == cap(k.buf) {
			grown := make([]byte, len(k.buf), max(4<<10, min(2*cap(k.buf), len(k.buf)+n)))
			copy(grown, k.buf)
			k.buf = grown
		}
		part := k.buf[len(k.buf):min(cap(k.buf), len(k.buf)+n)]
		got, err := io.ReadFull(k.r, part)
		k.buf = k.buf[:len(k.buf)+got]
		n -= got
		if err != nil {
			return nil, err
		}
	}
	return k.buf[start:], nil
}

// wait returns when the next message has begun to arrive, or at the read
// deadline with an error that says Timeout and leaves the stream whole.
func (k *conn) wait() error {
	_, err := k.r.Peek(1)
	return err
}

// recv reads one message. The frames are views that live until the next recv.
// A command (PING is answered, others are passed over) comes back as no frames.
// A message that has begun must end within k.timeout.
func (k *conn) recv() ([][]byte, error) {
	if cap(k.buf) > maxKeptMessage {
		k.buf = nil
	}
	k.buf = k.buf[:0]
	if err := k.wait(); err != nil {
		return nil, err
	}
	if err := k.c.SetReadDeadline(time.Now().Add(k.timeout)); err != nil {
		return nil, err
	}
	n := 0
	for {
		flags, body, err := k.frame(k.limit - len(k.buf))
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 && n == 0 {
			return nil, k.command(body)
		}
		if flags&flagCommand != 0 || n == maxFrames {
			return nil, errFrames
		}
		k.ends[n] = len(k.buf)
		n++
		if flags&flagMore == 0 {
			break
		}
	}
	at := 0
	for i, end := range k.ends[:n] {
		k.frames[i] = k.buf[at:end:end]
		at = end
	}
	return k.frames[:n], nil
}

// command answers PING with PONG and its context (ZMTP 3.1).
func (k *conn) command(body []byte) error {
	name, data, ok := cutCommand(body)
	if !ok || name != "PING" || len(data) < 2 || len(data) > 18 {
		return nil
	}
	if err := k.c.SetWriteDeadline(time.Now().Add(k.timeout)); err != nil {
		return err
	}
	return k.send(flagCommand, append([]byte("\x04PONG"), data[2:]...))
}

// parseAddr turns a ZMQ endpoint (tcp://host:port, ipc://path, or host:port)
// into what net.Dial takes.
func parseAddr(endpoint string) (network, addr string, err error) {
	scheme, rest, ok := strings.Cut(endpoint, "://")
	if !ok {
		scheme, rest = "tcp", endpoint
	}
	switch scheme {
	case "ipc":
		if rest != "" {
			return "unix", rest, nil
		}
	case "tcp":
		if _, _, err := net.SplitHostPort(rest); err == nil {
			return "tcp", rest, nil
		}
	}
	return "", "", fmt.Errorf("kvevents: address %q is neither tcp://host:port nor ipc://path", endpoint)
}
