package simengine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The server side of ZMTP 3.0 with the NULL mechanism (rfc.zeromq.org/spec/23),
// as far as a PUB and a ROUTER socket need it. Peers that speak 3.1 fall back.

// Frame flags.
const (
	zmtpMore    = 1
	zmtpLong    = 2
	zmtpCommand = 4
)

// maxZMTPFrame bounds what a peer may send: subscriptions and replay requests
// are a few bytes.
const maxZMTPFrame = 64 << 10

// maxZMTPFrames bounds the frames of one message.
const maxZMTPFrames = 16

var errZMTP = errors.New("simengine: peer does not support ZMTP 3")

// appendFrame appends one frame of a message.
func appendFrame(b, body []byte, flags byte) []byte {
	if len(body) < 1<<8 {
		b = append(b, flags, byte(len(body)))
	} else {
		b = binary.BigEndian.AppendUint64(append(b, flags|zmtpLong), uint64(len(body)))
	}
	return append(b, body...)
}

// appendMessage appends a message of several frames.
func appendMessage(b []byte, frames ...[]byte) []byte {
	for i, f := range frames {
		flags := byte(zmtpMore)
		if i == len(frames)-1 {
			flags = 0
		}
		b = appendFrame(b, f, flags)
	}
	return b
}

// handshake exchanges greetings with the peer, sends our socket type and reads its
// READY.
func handshake(c net.Conn, br *bufio.Reader, socketType string) error {
	hello := make([]byte, 64)
	hello[0], hello[9], hello[10] = 0xff, 0x7f, 3
	copy(hello[12:], "NULL")
	if _, err := c.Write(hello); err != nil {
		return err
	}
	var peer [64]byte
	if _, err := io.ReadFull(br, peer[:]); err != nil {
		return err
	}
	if peer[0] != 0xff || peer[9]&1 == 0 || peer[10] < 3 || !bytes.Equal(peer[12:17], []byte("NULL\x00")) {
		return errZMTP
	}
	ready := append([]byte("\x05READY\x0bSocket-Type"), 0, 0, 0, byte(len(socketType)))
	ready = append(ready, socketType...)
	if _, err := c.Write(appendFrame(nil, ready, zmtpCommand)); err != nil {
		return err
	}
	flags, body, err := readFrame(br)
	if err != nil {
		return err
	}
	if flags&zmtpCommand == 0 || !bytes.HasPrefix(body, []byte("\x05READY")) {
		return errZMTP
	}
	return nil
}

// readFrame reads one frame or command.
func readFrame(br *bufio.Reader) (flags byte, body []byte, err error) {
	if flags, err = br.ReadByte(); err != nil {
		return 0, nil, err
	}
	var size uint64
	if flags&zmtpLong != 0 {
		var n [8]byte
		if _, err = io.ReadFull(br, n[:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(n[:])
	} else {
		n, err := br.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size = uint64(n)
	}
	if flags > zmtpMore|zmtpLong|zmtpCommand || size > maxZMTPFrame {
		return 0, nil, fmt.Errorf("%w: frame of %d bytes, flags %#x", errZMTP, size, flags)
	}
	body = make([]byte, size)
	_, err = io.ReadFull(br, body)
	return flags, body, err
}

// readMessage reads frames up to the last one of a message, or one command.
func readMessage(br *bufio.Reader) (frames [][]byte, command bool, err error) {
	for {
		flags, body, err := readFrame(br)
		if err != nil {
			return nil, false, err
		}
		frames = append(frames, body)
		if flags&zmtpCommand != 0 {
			return frames, true, nil
		}
		if flags&zmtpMore == 0 {
			return frames, false, nil
		}
		if len(frames) == maxZMTPFrames {
			return nil, false, fmt.Errorf("%w: message of too many frames", errZMTP)
		}
	}
}
