package dialect

import (
	"bytes"
	"strconv"
	"strings"
)

// Metrics is one scrape of an engine, in units of ours. Sums over the engine's
// ranks and models where there are several; KVUsage is the fullest one's.
type Metrics struct {
	Running, Waiting float64
	KVUsage          float64 // in [0, 1]
	BlockTokens      int     // 0 unknown
	CacheBlocks      int     // 0 unknown
	CacheTokens      int     // of the cache, where the engine counts tokens; 0 unknown
	Sleeping         bool
	StartTime        float64 // of the server process, seconds since 1970; 0 unknown

	// Counters since the process started.
	Requests     float64 // ended, for whatever reason
	Aborted      float64 // of them, because the client left
	PromptTokens float64
	OutputTokens float64
	CacheQueries float64 // prompt tokens looked up in the prefix cache
	CacheHits    float64 // of them, found
	ExternalHits float64 // of those not found, found in a tier that a connector adds

	Adapters []string // LoRA adapters that requests run with at this moment

	HasCache bool // CacheQueries and CacheHits are reported
	HasLoad  bool // Running and Waiting are reported

	reported uint32 // bit per metricID that the scrape had
}

// Uncached returns the prompt tokens that the engine has computed.
func (m *Metrics) Uncached() float64 {
	if m.HasCache {
		return m.CacheQueries - m.CacheHits
	}
	return m.PromptTokens
}

// metricID is a figure we read, whatever its name.
type metricID uint8

const (
	noMetric metricID = iota
	mRunning
	mWaiting
	mUsage
	mUsageOld
	mSleep
	mConfig
	mStart
	mRequests
	mPrompt
	mOutput
	mQueries
	mHits
	mQueriesOld
	mHitsOld
	mLoRA
	mAborted
	mCapacity
	mExternalHits
)

// readMetrics reads a scrape by a table of names, counters without _total.
func readMetrics(text []byte, names map[string]metricID) Metrics {
	var m Metrics
	id := func(name []byte) metricID {
		name, _ = bytes.CutSuffix(name, []byte("_total"))
		return names[string(name)]
	}
	eachSample(text, func(name []byte) bool { return id(name) != noMetric }, func(s *sample) {
		if !(s.value >= 0 && s.value < 1e18) { // NaN, infinite or negative: not a count
			return
		}
		i := id(s.name)
		m.reported |= 1 << i
		m.take(i, s.value)
	})
	m.KVUsage = min(m.KVUsage, 1)
	return m
}

// take adds one sample.
func (m *Metrics) take(id metricID, v float64) {
	switch id {
	case mRunning:
		m.Running, m.HasLoad = m.Running+v, true
	case mWaiting:
		m.Waiting += v
	case mUsage:
		m.KVUsage = max(m.KVUsage, v)
	case mCapacity:
		m.CacheTokens += int(min(v, 1<<40))
	case mStart:
		m.StartTime = v
	case mRequests:
		m.Requests += v
	case mAborted:
		m.Aborted += v
	case mPrompt:
		m.PromptTokens += v
	case mOutput:
		m.OutputTokens += v
	case mHits:
		m.CacheHits += v
	}
}

// Complete fills what a scrape did not report from what discovery did.
func (m *Metrics) Complete(c *Capabilities) {
	if m.BlockTokens == 0 {
		m.BlockTokens = c.BlockTokens
	}
	if m.CacheTokens == 0 {
		m.CacheTokens = c.CacheTokens
	}
	if m.CacheBlocks == 0 && m.BlockTokens > 0 {
		m.CacheBlocks = m.CacheTokens / m.BlockTokens
	}
}

// list splits a label that is a list with commas.
func list(s string) (out []string) {
	for _, f := range strings.Split(s, ",") {
		if f = strings.TrimSpace(f); f != "" && len(out) < maxAdapters {
			out = append(out, f)
		}
	}
	return out
}

// maxAdapters bounds the adapters that are remembered of one scrape. An engine's
// GPU holds tens.
const maxAdapters = 1024

// number reads a label that is a count, "None" and nonsense as 0.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<40 {
		return 0
	}
	return n
}

// Restarted returns why the engine that reported cur cannot be the process that
// reported prev, "" if it may be.
func Restarted(prev, cur *Metrics) string {
	if prev.StartTime != 0 && cur.StartTime != 0 {
		if d := cur.StartTime - prev.StartTime; d > 1 || d < -1 {
			return "process start time changed"
		}
	}
	both := prev.reported & cur.reported // a scrape may miss a figure
	fell := func(id metricID, a, b float64) bool { return both&(1<<id) != 0 && b < a }
	if fell(mPrompt, prev.PromptTokens, cur.PromptTokens) || fell(mOutput, prev.OutputTokens, cur.OutputTokens) ||
		fell(mRequests, prev.Requests, cur.Requests) || fell(mQueries, prev.CacheQueries, cur.CacheQueries) {
		return "counters went backwards"
	}
	return ""
}
