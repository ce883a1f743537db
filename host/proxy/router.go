package proxy

import (
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Router places requests. Its methods are called by many goroutines at once.
//
// An error that is, or wraps, a *llmapi.Error is shown to the client as it is;
// any other stays inside and the client gets a general text with status 503.
type Router interface {
	// Edge returns the edge of the rules in force, by which the head of the next
	// request is read and its sender authenticated.
	Edge() *Edge

	// Schedule places a request and charges its work. If its error is a *Held, the
	// proxy waits. It may wait itself for a short time (in a queue); r.Gone is closed
	// when the client leaves. r, r.API and all that is reached from r.API belong to
	// the proxy: they are valid until the response head came and are then reused, so
	// the router copies what it keeps. It may keep r.ID, r.Principal and the hints.
	Schedule(r *Request) (Placement, error)

	// Models lists the models that the principal may use.
	Models(p *identity.Principal) []llmapi.Model
}

// Placement is a placed request. Its methods are called by one
// goroutine; Done is called exactly once, and last.
type Placement interface {
	// Target returns where to send the request. It is not changed until Next or
	// Done.
	Target() *exchange.Target
	// Next moves the request to another endpoint, after the target failed before a
	// byte of an answer came, or answered with status (0 = no answer). It
	// returns false if there is none; Target is then unchanged.
	Next(status int) bool
	// FirstToken is called when the first bytes of the answer's body came, not
	// counting what engines send before they compute.
	FirstToken()
	// Answered is called with the id by which a later request may refer to this
	// answer, before the client has it, at most once; for operations whose answers
	// are stored.
	Answered(id string)
	// Done ends the placement. o is valid during the call.
	Done(o *exchange.Outcome)
}

// Request is what Schedule gets.
type Request struct {
	API       *llmapi.Request
	Principal *identity.Principal
	Edge      *Edge            // of the rules by which the head was read and Principal authenticated
	ID        string           // as in the x-request-id of the answer
	Session   string           // the client's session hint, "" = none
	Priority  string           // priority class that the client requests, "" = none
	Labels    []identity.Label // from the client's headers, sorted by name
	Received  time.Time

	// Limits is set by Schedule, also if it refuses: every response to the request
	// reports them in the headers of its API.
	Limits Limits

	s *stream
}

// Gone returns a channel that is closed when the client has left or the proxy
// ends the request. It is made at the first call: for those who wait only.
func (r *Request) Gone() <-chan struct{} { return r.s.goneChan() }
