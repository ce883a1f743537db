package exchange

import "time"

// Outcome is what came of a request that was placed.
type Outcome struct {
	// Status is the client's HTTP status; 0 = none, 499 = it left before one. An
	// error of a stream whose head had gone out has the status that the error
	// would have had.
	Status  int
	End     End
	Retries int // engines or connections tried in vain

	TTFT time.Duration // from the receipt to the first bytes of the body; 0 = none came
	E2E  time.Duration // from the receipt to the end

	// What the engine reported.
	PromptTokens int // valid with HasUsage
	OutputTokens int // valid with HasUsage
	CachedTokens int // valid with HasCached
	HasUsage     bool
	HasCached    bool

	BytesIn, BytesOut int64 // of the bodies, as received from client and engine
}

// Succeeded reports whether the client has the whole answer of an engine that
// did what was asked.
func (o *Outcome) Succeeded() bool { return o.End == EndComplete && o.Status/100 == 2 }
