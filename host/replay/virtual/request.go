package virtual

import (
	"time"

	"github.com/kvasir-router/kvasir/host/simengine"
)

// Request is one request in a run. Its fields are read-only for routers, except
// Predicted, Uncached, Weight and Route.
type Request struct {
	Number       uint64 // in order of arrival, from 1
	Conversation int    // index in the trace
	Turn         int    // in the conversation, from 0
	Name         string // of the conversation
	Tenant       string
	// Continues reports that the request continues a conversation, and Repeats how many
	// leading tokens its client has sent or received before: the prompt and the answer of
	// the turn before. Where a recording does not say, every request continues one.
	Continues bool
	Repeats   int
	// Session identifies the conversation as a client's session id would; where a
	// recording does not tell conversations, it is the chain of the prompt's second block.
	Session uint64
	Blocks  []uint64 // chain of the prompt's whole blocks; shared, must not be changed
	Prompt  int      // tokens
	Output  int      // tokens that will be generated; a router does not know them

	Arrival time.Duration
	First   time.Duration // end of the step that generated the first token
	Engine  int           // that it runs on
	Cached  int           // prompt tokens that the engine found in its cache; valid from First on

	// Of the router.
	Predicted int // prompt tokens that the router expected in the engine's cache
	Uncached  int // prompt tokens that it expected to be computed
	Weight    int // tokens of KV memory that it expected to be needed
	Route     any

	foreign bool // the router does not know the request
	seq     simengine.Sequence
}

// Figures are what an engine reports of itself when it is scraped.
type Figures struct {
	Running, Waiting int     // requests
	KVUsage          float64 // share of KV memory that running requests use, in [0, 1]
	CachedTokens     int     // that the cache holds, in use or not
}

// Router places requests. Times are since the beginning of the run and never
// decrease. Calls come one after the other.
type Router interface {
	// Place returns the engine, an index of Config.Engines, that the request is sent to.
	// It sets r.Predicted.
	Place(now time.Duration, r *Request) (int, error)
	// FirstToken reports that the first token of r has arrived, Done that the last one has.
	FirstToken(now time.Duration, r *Request)
	Done(now time.Duration, r *Request)
	// Events are the cache events of one engine, valid during the call.
	Events(now time.Duration, engine int, events []simengine.Event)
	// Scraped gives the figures of one engine.
	Scraped(now time.Duration, engine int, f Figures)
	// Tick is called once a second.
	Tick(now time.Duration)
}
