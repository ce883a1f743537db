package proxy

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Stage is a part of the way of a request whose time is measured.
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

// HistogramBuckets is the number of buckets of a Histogram: bucket i counts
// durations below 2^i µs, the last one all others.
const HistogramBuckets = 32

// Histogram is a distribution of durations.
type Histogram struct {
	Count    uint64
	SumNanos uint64
	Buckets  [HistogramBuckets]uint64 // not cumulative
}

// Stats are counters since the proxy was made.
type Stats struct {
	Connections   int   // of clients, open
	InFlight      int   // requests
	BodyBytesHeld int64 // memory of request bodies, of all proxies of the process

	Requests   uint64            // with a known path
	Completed  uint64            // answers of engines passed on whole
	ClientGone uint64            // clients that left before their answer's end
	Refused    map[string]uint64 // answers of the router itself, by code
	Failed     map[string]uint64 // by what ended the request: Outcome.Err
	Retries    map[string]uint64 // by what was wrong with the attempt before
	BytesIn    uint64            // of request bodies
	BytesOut   uint64            // of answers' bodies

	UsageRemoved uint64 // usage events that the router asked for and took out
	Dials        uint64 // of connections to engines
	Reuses       uint64
	Stale        uint64 // pooled connections found dead before use
	IdleConns    int    // to engines

	Stages [NumStages]Histogram
}

type histogram struct {
	count, sum atomic.Uint64
	buckets    [HistogramBuckets]atomic.Uint64
}

func (h *histogram) add(d time.Duration) {
	n := uint64(max(d, 0))
	h.count.Add(1)
	h.sum.Add(n)
	h.buckets[min(bits.Len64(n/1000), HistogramBuckets-1)].Add(1)
}

func (h *histogram) load() (out Histogram) {
	out.Count, out.SumNanos = h.count.Load(), h.sum.Load()
	for i := range h.buckets {
		out.Buckets[i] = h.buckets[i].Load()
	}
	return out
}

type counters struct {
	inFlight atomic.Int64

	requests, completed, clientGone atomic.Uint64
	bytesIn, bytesOut               atomic.Uint64
	usageRemoved                    atomic.Uint64
	dials, reuses, stale            atomic.Uint64

	refused, failed, retries wordMap
	stages                   [NumStages]histogram
}

// Stats returns the counters. Safe for concurrent use.
func (p *Proxy) Stats() Stats {
	c := &p.count
	st := Stats{
		InFlight: int(c.inFlight.Load()), BodyBytesHeld: bodyBytes.Load(),
		Requests: c.requests.Load(), Completed: c.completed.Load(), ClientGone: c.clientGone.Load(),
		Refused: c.refused.load(), Failed: c.failed.load(), Retries: c.retries.load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(), UsageRemoved: c.usageRemoved.Load(),
		Dials: c.dials.Load(), Reuses: c.reuses.Load(), Stale: c.stale.Load(),
		IdleConns: p.upstreams.idle(),
	}
	if l := p.ln.Load(); l != nil {
		st.Connections = len(l.conns())
	}
	for i := range c.stages {
		st.Stages[i] = c.stages[i].load()
	}
	return st
}
