package proxy

import (
	"time"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// framing is how the end of an answer's body is found.
type framing uint8

const (
	framingLength  framing = iota // after a number of bytes
	framingChunked                // by the last chunk
	framingClose                  // by the end of the connection
)

// phase is how far an answer's body has come.
type phase uint8

const (
	phaseWaiting  phase = iota // nothing came that was computed
	phaseStarted               // the engine generates
	phaseFinished              // the event that ends the stream came last
)

// usageOwner is who requested the report of usage in a stream.
type usageOwner uint8

const (
	usageOfClient usageOwner = iota // it is passed on
	usageOfRouter                   // it is removed
)

// response reads the body of an engine's answer as it passes: its framing, its
// progress, its report of usage. Only the goroutine that drives the stream uses it.
type response struct {
	framing  framing
	left     int64 // bytes to come; valid with framingLength
	chunks   chunkDecoder
	frameErr error // the framing is malformed

	format   llmapi.StreamFormat // StreamNone: the body is not a stream of events
	phase    phase
	lastID   int // number of the last event, of formats that number them
	tail     streamTail
	received int64     // bytes of the body
	pieceAt  time.Time // when the last piece came; zero = not known

	usage      usageScanner
	usageOwner usageOwner
	filter     usageFilter // used with usageOfRouter
	id         answerID

	reusable bool // the connection may carry another request
}

// begin prepares for a body that fasthttp's content length describes: a number
// of bytes, -1 for chunks, -2 for the end of the connection.
func (r *response) begin(contentLength int) {
	switch {
	case contentLength >= 0:
		r.framing, r.left = framingLength, int64(contentLength)
	case contentLength == -1:
		r.framing = framingChunked
	default:
		r.framing = framingClose
	}
}

// size returns the length of the body for the client, -1 if it is not known or if
// a part may be removed.
func (r *response) size() int {
	if r.framing != framingLength || r.usageOwner == usageOfRouter {
		return -1
	}
	return int(r.left)
}

// unframe takes the framing off the bytes that came. It returns the payload, which
// is a prefix of d's storage, and how many bytes of d it consumed.
func (r *response) unframe(d []byte) (payload []byte, n int) {
	switch r.framing {
	case framingChunked:
		payload, n, r.frameErr = r.chunks.decode(d)
		return payload, n
	case framingLength:
		n = int(min(int64(len(d)), r.left))
		r.left -= int64(n)
		return d[:n], n
	}
	return d, len(d)
}

// over reports whether the body has ended where its framing says.
func (r *response) over() bool {
	return r.chunks.done || r.framing == framingLength && r.left == 0
}

// events reports whether the body is a stream of events.
func (r *response) events() bool { return r.format != llmapi.StreamNone }

// observe reads a piece of the payload. It reports whether the piece has a part of
// a report of usage.
func (r *response) observe(payload []byte) (usage bool) {
	r.received += int64(len(payload))
	usage = r.usage.feed(payload)
	switch {
	case r.events() && r.ends(payload):
		r.phase = phaseFinished
	case r.phase == phaseFinished:
		r.phase = phaseStarted
	}
	return usage
}

// midEvent reports whether the client has a part of an event. sent is the number
// of bytes that it has.
func (r *response) midEvent(sent int64) bool {
	if r.usageOwner == usageOfRouter {
		return r.filter.inEvent && r.filter.passing
	}
	return sent > 0 && !r.tail.ended()
}

// reset prepares for another answer and keeps scratch memory.
func (r *response) reset() {
	r.usage.reset()
	r.filter.reset()
	*r = response{usage: r.usage, filter: r.filter, id: answerID{opening: r.id.opening[:0]}}
}

// maxOpening bounds the beginning of an answer in which its id is looked for. It
// is the first member of vLLM's answers and is within the first hundred bytes of
// every server's first event.
const maxOpening = 512

// answerID finds the id of an answer that a later request may refer to.
type answerID struct {
	wanted  bool
	opening []byte // what came of the answer
}

// feed takes the next piece and returns the id, "" while it is not there.
func (a *answerID) feed(payload []byte) string {
	n := min(len(payload), maxOpening-len(a.opening))
	a.opening = append(a.opening, payload[:n]...)
	id := llmapi.AnswerID(a.opening)
	a.wanted = id == "" && len(a.opening) < maxOpening
	return id
}
