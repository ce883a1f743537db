package proxy

import "errors"

// errChunk is returned for a body with malformed chunked framing.
var errChunk = errors.New("proxy: malformed chunked body from engine")

// maxChunkLine bounds a chunk extension and a trailer line, in bytes.
const maxChunkLine = 4096

// chunkDecoder removes the chunked framing of a body in place: it moves the payload
// to the front of the buffer. The zero value is ready.
type chunkDecoder struct {
	state byte
	done  bool
	digs  int
	line  int
	left  int64 // bytes of the chunk still to come
}

// States: what the next byte is part of.
const (
	csSize      = iota
	csExt       // extension after the size
	csSizeLF    // CR of the size line seen
	csData      //
	csDataCR    // the data are over
	csDataLF    //
	csTrailer   // start of a trailer line
	csTrailerLn // inside a trailer line
	csTrailerLF // CR of a trailer line seen
	csEndLF     // CR of the empty line seen
)

// decode consumes bytes of b and returns the payload (a prefix of b's storage) and
// how many bytes it consumed. It does not touch bytes after the last chunk. With an
// error, the payload is what came before the fault.
func (d *chunkDecoder) decode(b []byte) (payload []byte, n int, err error) {
	o := 0
	for n < len(b) && !d.done {
		if d.state == csData {
			m := int(min(int64(len(b)-n), d.left))
			if o != n {
				copy(b[o:], b[n:n+m])
			}
			o, n = o+m, n+m
			if d.left -= int64(m); d.left == 0 {
				d.state = csDataCR
			}
			continue
		}
		if !d.step(b[n]) {
			return b[:o], n, errChunk
		}
		n++
	}
	return b[:o], n, nil
}

// step consumes one byte of the framing. It returns false if the byte is not valid.
func (d *chunkDecoder) step(c byte) bool {
	switch d.state {
	case csSize:
		return d.size(c)
	case csExt, csTrailerLn:
		if d.line++; c == '\n' || d.line > maxChunkLine {
			return false
		}
		if c == '\r' {
			d.state++
		}
	case csSizeLF:
		d.digs = 0
		if d.state = csData; d.left == 0 {
			d.state = csTrailer
		}
		return c == '\n'
	case csDataCR:
		d.state = csDataLF
		return c == '\r'
	case csDataLF:
		d.state = csSize
		return c == '\n'
	case csTrailer:
		d.line = 0
		if d.state = csTrailerLn; c == '\r' {
			d.state = csEndLF
		}
		return c != '\n'
	case csTrailerLF:
		d.state = csTrailer
		return c == '\n'
	case csEndLF:
		d.done = true
		return c == '\n'
	}
	return true
}

func (d *chunkDecoder) size(c byte) bool {
	switch v := unhex(c); {
	case v >= 0:
		d.left = d.left<<4 | int64(v)
		d.digs++
		return d.digs <= 15
	case d.digs == 0:
		return false
	case c == '\r':
		d.state = csSizeLF
	case c == ';':
		d.state, d.line = csExt, 0
	default:
		return false
	}
	return true
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
