package proxy

import (
	"bytes"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// What differs between the APIs in an answer that passes by.

// ends takes the next piece of a stream of events and tells whether its last
// event so far is the one that ends a stream. Chat and completions end with
// [DONE], messages with message_stop, responses with response.completed,
// .incomplete or .failed, which vLLM writes last in the event. What the first
// events of a response repeat of the request may look like a report of usage, and
// is none.
func (s *stream) ends(payload []byte) bool {
	done := s.tail.add(payload)
	switch s.req.API.Op.StreamFormat() {
	case llmapi.StreamMessages:
		return done || s.tail.endsWith(messageEnds)
	case llmapi.StreamResponses:
		if n := lastSequence(payload, -1); n >= 0 {
			s.events = n
			s.usage.found = s.usage.found && n > lastWaiting
		}
		return done || s.tail.endsWith(responseEnds)
	}
	return done
}

// computes tells whether a piece of an answer's body shows that the engine has
// begun to generate: comments do not, nor do the two events with which a stream
// of responses begins while the prompt still waits.
func (s *stream) computes(payload []byte) bool {
	switch {
	case !s.sse:
		return true
	case payload[0] == ':':
		return false
	case s.req.API.Op.StreamFormat() == llmapi.StreamResponses:
		return lastSequence(payload, s.events) > lastWaiting || bytes.Contains(payload, deltaMark)
	}
	return true
}

// lastWaiting is the number of response.in_progress, after response.created.
const lastWaiting = 1

// maxOpening bounds the beginning of an answer in which its id is looked for. It
// is the first member of vLLM's answers and stands within the first hundred bytes
// of every server's first event.
const maxOpening = 512

// name looks for the id of an answer of OpResponses and tells the router, so that
// it knows the id before the client does.
func (s *stream) name(payload []byte) {
	n := min(len(payload), maxOpening-len(s.opening))
	s.opening = append(s.opening, payload[:n]...)
	id := llmapi.AnswerID(s.opening)
	if id != "" {
		s.pl.Answered(id)
	}
	s.naming = id == "" && len(s.opening) < maxOpening
}

var (
	sequenceKey = []byte(`"sequence_number":`)
	deltaMark   = []byte(`.delta"`) // ends the type of events with text, numbered or not

	messageEnds  = [][]byte{[]byte(`"type":"message_stop"}`), []byte(`"type": "message_stop"}`)}
	responseEnds = [][]byte{[]byte(`"type":"response.completed"}`), []byte(`"type":"response.incomplete"}`), []byte(`"type":"response.failed"}`)}
)

// lastSequence returns the number of the last event in p, or last if p holds none
// that is whole.
func lastSequence(p []byte, last int) int {
	i := bytes.LastIndex(p, sequenceKey)
	if i < 0 {
		return last
	}
	n, digits := 0, 0
	for _, c := range bytes.TrimLeft(p[i+len(sequenceKey):], " ") {
		if c < '0' || c > '9' {
			if digits > 0 {
				return n
			}
			break
		}
		if n, digits = n*10+int(c-'0'), digits+1; digits > 9 {
			break
		}
	}
	return last
}

// endsWith tells whether the last line so far is over and ends with one of ends,
// which leave room for line ends in what the tail keeps.
func (t *streamTail) endsWith(ends [][]byte) bool {
	b := bytes.TrimRight(t.b[:t.n], "\r\n")
	if len(b) == t.n {
		return false
	}
	for _, e := range ends {
		if bytes.HasSuffix(b, e) {
			return true
		}
	}
	return false
}
