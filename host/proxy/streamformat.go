package proxy

import (
	"bytes"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// lastWaiting is the number of the last event of a numbered stream that is sent
// before anything is computed: response.in_progress, after response.created.
const lastWaiting = 1

// streamFormats has what differs between the formats while a stream passes.
var streamFormats = [llmapi.NumStreamFormats]struct {
	// ends are what the last event of a stream ends with, beside [DONE]. They
	// leave room for line ends in what streamTail keeps. vLLM writes the type of
	// the events of responses last.
	ends     [][]byte
	numbered bool   // events have a sequence_number
	beat     []byte // sign of life of a stream whose engine is not there yet
}{
	llmapi.StreamNone:   {beat: commentBeat},
	llmapi.StreamChunks: {beat: commentBeat},
	llmapi.StreamResponses: {
		ends: [][]byte{[]byte(`"type":"response.completed"}`), []byte(`"type":"response.incomplete"}`),
			[]byte(`"type":"response.failed"}`)},
		numbered: true, beat: commentBeat,
	},
	llmapi.StreamMessages: {
		ends: [][]byte{[]byte(`"type":"message_stop"}`), []byte(`"type": "message_stop"}`)},
		beat: []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n"), // Anthropic's clients count it as a sign of life
	},
}

// commentBeat is dropped by every parser of events.
var commentBeat = []byte(": waiting for the model to start\n\n")

// ends takes the next piece of a stream of events and reports whether the last
// event so far is the one that ends a stream. What the first events of a response
// repeat of the request may look like a report of usage, and is none.
func (r *response) ends(payload []byte) bool {
	f := &streamFormats[r.format]
	done := r.tail.add(payload)
	if f.numbered {
		if n := lastSequence(payload, -1); n >= 0 {
			r.lastID = n
			r.usage.found = r.usage.found && n > lastWaiting
		}
	}
	return done || r.tail.endsWith(f.ends)
}

// computes reports whether a piece of the body shows that the engine generates:
// comments do not, nor do the two events with which a stream of responses begins
// while the prompt waits.
func (r *response) computes(payload []byte) bool {
	switch {
	case !r.events():
		return true
	case payload[0] == ':':
		return false
	case streamFormats[r.format].numbered:
		return lastSequence(payload, r.lastID) > lastWaiting || bytes.Contains(payload, deltaMark)
	}
	return true
}

var (
	sequenceKey = []byte(`"sequence_number":`)
	deltaMark   = []byte(`.delta"`) // ends the type of events with text, numbered or not
)

// lastSequence returns the number of the last event in p, or last if p has none
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
