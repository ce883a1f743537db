package proxy

import (
	"sync/atomic"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/internal/timing"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Stage is a part of serving a request whose time is measured.
type Stage uint8

const (
	StageRead      Stage = iota // the body, from the parsed head on
	StageScan                   // llmapi.Request.Scan
	StageSchedule               // Router.Schedule
	StageConnect                // a connection to the engine, pooled or dialled
	StageFirstHead              // from the request's sending to the response head
	NumStages
)

var stageNames = [NumStages]string{"read", "scan", "schedule", "connect", "response_head"}

// String returns the stage's name in metrics.
func (s Stage) String() string { return stageNames[s] }

// Stats are counters since the proxy was made.
type Stats struct {
	Connections   int   `json:"connections"`     // of clients, open
	InFlight      int   `json:"in_flight"`       // requests
	BodyBytesHeld int64 `json:"body_bytes_held"` // memory of request bodies

	Requests   uint64            `json:"requests"`    // with a known path
	Completed  uint64            `json:"completed"`   // answers of engines passed on whole
	ClientGone uint64            `json:"client_gone"` // clients that left before their answer's end
	Refused    map[string]uint64 `json:"refused"`     // answers of the router itself, by code
	Failed     map[string]uint64 `json:"failed"`      // by what ended the request: names of exchange.End
	Retries    map[string]uint64 `json:"retries"`     // by what was wrong with the attempt before
	BytesIn    uint64            `json:"bytes_in"`    // of request bodies
	BytesOut   uint64            `json:"bytes_out"`   // of answers' bodies

	UsageRemoved uint64 `json:"usage_removed"` // usage events that the router requested and removed
	Heartbeats   uint64 `json:"heartbeats"`    // to clients of streams that wait for an endpoint to be started
	Dials        uint64 `json:"dials"`         // of connections to engines
	Reuses       uint64 `json:"reuses"`
	Stale        uint64 `json:"stale"`      // pooled connections found dead before use
	IdleConns    int    `json:"idle_conns"` // to engines

	Stages [NumStages]timing.Counts `json:"stages"`
}

type counters struct {
	inFlight atomic.Int64

	requests, completed, clientGone atomic.Uint64
	bytesIn, bytesOut               atomic.Uint64
	usageRemoved, heartbeats        atomic.Uint64
	dials, reuses, stale            atomic.Uint64

	refused [llmapi.NumCodes]atomic.Uint64
	failed  [exchange.NumEnds]atomic.Uint64
	retries [numRetryReasons]atomic.Uint64
	stages  [NumStages]timing.Histogram
}

// Stats returns the counters. Safe for concurrent use.
func (p *Proxy) Stats() Stats {
	c := &p.count
	st := Stats{
		InFlight: int(c.inFlight.Load()), BodyBytesHeld: p.bodies.held.Load(),
		Requests: c.requests.Load(), Completed: c.completed.Load(), ClientGone: c.clientGone.Load(),
		Refused: byName(c.refused[:], llmapi.Code.String), Failed: byName(c.failed[:], exchange.End.String),
		Retries: byName(c.retries[:], retryReason.String),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(), UsageRemoved: c.usageRemoved.Load(),
		Heartbeats: c.heartbeats.Load(),
		Dials:      c.dials.Load(), Reuses: c.reuses.Load(), Stale: c.stale.Load(),
		IdleConns: p.upstreams.idle(),
	}
	if l := p.ln.Load(); l != nil {
		st.Connections = len(l.conns())
	}
	for i := range c.stages {
		st.Stages[i] = c.stages[i].Load()
	}
	return st
}

// byName returns the counters that are not 0, by the name of their index.
func byName[E ~uint8](counts []atomic.Uint64, name func(E) string) map[string]uint64 {
	m := map[string]uint64{}
	for i := range counts {
		if n := counts[i].Load(); n > 0 {
			m[name(E(i))] = n
		}
	}
	return m
}
