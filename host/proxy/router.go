package proxy

import (
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Router says who asks and where a request goes. Its methods are called by many
// goroutines at once.
//
// An error that is, or wraps, a *llmapi.Error is shown to the client as it is;
// any other stays inside and the client gets a general text with status 503.
type Router interface {
	// Edge returns the edge of the rules in force, by which the head of the next
	// request is read and its sender authenticated.
	Edge() *Edge

	// Schedule places a request and charges its work. Its error may be a *Held: the
	// request waits outside then. It may wait itself (a queue), for a short time; the
	// client's departure is then seen on r.Gone. r, r.API and every byte and
	// string reached from r.API belong to the proxy: they live until the response
	// head came and are memory of other requests afterwards, so what must last
	// longer is copied. r.ID, r.Principal and the client's hints may be kept.
	Schedule(r *Request) (Placement, error)

	// Models lists what the principal may ask for.
	Models(p *identity.Principal) []llmapi.Model
}

// Placement is one request that was placed. Its methods are called by one
// goroutine; Done is called exactly once, and last.
type Placement interface {
	// Target is where the request goes. It and all it refers to stay unchanged
	// until Next or Done.
	Target() *exchange.Target
	// Next moves the request to another endpoint, since Target failed before a
	// byte of an answer came, or answered with status (429 or 503; 0 = it did not
	// answer). False: there is none, Target is as it was.
	Next(status int) bool
	// FirstToken tells that the first bytes of the answer's body came, beyond what
	// an engine says before it computes.
	FirstToken()
	// Answered tells the id by which a later request may refer to this answer of
	// OpResponses, before the client learns it. It is called at most once.
	Answered(id string)
	// Done ends the request. o is valid during the call.
	Done(o *exchange.Outcome)
}

// Request is what Schedule gets.
type Request struct {
	API       *llmapi.Request
	Principal *identity.Principal
	Edge      *Edge            // of the rules by which the head was read and Principal authenticated
	ID        string           // as in the x-request-id of the answer
	Session   string           // the client's session hint, "" = none
	Priority  string           // the class the client hints at, "" = none
	Labels    []identity.Label // what the client's headers say, sorted by name
	Received  time.Time

	// Limits is set by Schedule, also where it refuses: every answer to the
	// request tells of them in the headers of its API.
	Limits Limits

	s *stream
}

// Gone returns a channel that is closed when the client has left or the proxy
// ends the request. It is made at the first call: for those who wait only.
func (r *Request) Gone() <-chan struct{} { return r.s.goneChan() }
