package backend

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

	HasCache bool // CacheQueries and CacheHits are told
	HasLoad  bool // Running and Waiting are told

	told uint32 // bit per metricID that the scrape had
}

// uncached returns the prompt tokens the engine has computed.
func (m *Metrics) uncached() float64 {
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

// vllmMetric names a figure. The names with gpu_ are those of releases before
// 0.10; counters come with and without _total (Prometheus text or OpenMetrics).
func vllmMetric(name []byte) metricID {
	n, ok := bytes.CutPrefix(name, []byte("vllm:"))
	if !ok {
		if string(name) == "process_start_time_seconds" {
			return mStart
		}
		return noMetric
	}
	n, _ = bytes.CutSuffix(n, []byte("_total"))
	switch string(n) {
	case "num_requests_running":
		return mRunning
	case "num_requests_waiting":
		return mWaiting
	case "kv_cache_usage_perc":
		return mUsage
	case "gpu_cache_usage_perc":
		return mUsageOld
	case "engine_sleep_state":
		return mSleep
	case "cache_config_info":
		return mConfig
	case "request_success":
		return mRequests
	case "prompt_tokens":
		return mPrompt
	case "generation_tokens":
		return mOutput
	case "prefix_cache_queries":
		return mQueries
	case "prefix_cache_hits":
		return mHits
	case "external_prefix_cache_hits":
		return mExternalHits
	case "gpu_prefix_cache_queries":
		return mQueriesOld
	case "gpu_prefix_cache_hits":
		return mHitsOld
	case "lora_requests_info":
		return mLoRA
	}
	return noMetric
}

// parseVLLM reads a scrape of vLLM.
func parseVLLM(text []byte) Metrics {
	var m Metrics
	var queriesOld, hitsOld, usageOld, loraAt float64
	hasNew, hasOld, hasUsage := false, false, false
	wanted := func(name []byte) bool { return vllmMetric(name) != noMetric }
	eachSample(text, wanted, func(s *sample) {
		v := s.value
		if !(v >= 0 && v < 1e18) { // NaN, infinite or negative: not a count
			return
		}
		id := vllmMetric(s.name)
		m.told |= 1 << id
		switch id {
		case mRunning:
			m.Running += v
			m.HasLoad = true
		case mWaiting:
			m.Waiting += v
		case mUsage:
			m.KVUsage, hasUsage = max(m.KVUsage, v), true
		case mUsageOld:
			usageOld = max(usageOld, v)
		case mSleep:
			m.Sleeping = m.Sleeping || v > 0 && s.label("sleep_state") != "awake"
		case mConfig:
			m.BlockTokens = max(m.BlockTokens, number(s.label("block_size")))
			m.CacheBlocks += number(s.label("num_gpu_blocks"))
		case mStart:
			m.StartTime = v
		case mRequests:
			m.Requests += v
			if s.label("finished_reason") == "abort" {
				m.Aborted += v
			}
		case mPrompt:
			m.PromptTokens += v
		case mOutput:
			m.OutputTokens += v
		case mQueries:
			m.CacheQueries, hasNew = m.CacheQueries+v, true
		case mHits:
			m.CacheHits += v
		case mExternalHits:
			m.ExternalHits += v
		case mQueriesOld:
			queriesOld, hasOld = queriesOld+v, true
		case mHitsOld:
			hitsOld += v
		case mLoRA: // one sample for each set there has been; the value is when
			if v >= loraAt {
				loraAt, m.Adapters = v, list(s.label("running_lora_adapters"))
			}
		}
	})
	if !hasNew { // while both names were sent they told the same
		m.CacheQueries, m.CacheHits = queriesOld, hitsOld
	}
	if !hasUsage {
		m.KVUsage = usageOld
	}
	m.KVUsage = min(m.KVUsage, 1)
	m.HasCache = hasNew || hasOld
	return m
}

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
		m.told |= 1 << i
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

// complete fills what a scrape does not tell from what discovery did.
func (m *Metrics) complete(c *Capabilities) {
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

// restarted tells why the engine that gave cur cannot be the process that gave
// prev, "" if it may be.
func restarted(prev, cur *Metrics) string {
	if prev.StartTime != 0 && cur.StartTime != 0 {
		if d := cur.StartTime - prev.StartTime; d > 1 || d < -1 {
			return "process start time changed"
		}
	}
	both := prev.told & cur.told // a scrape may miss a figure
	fell := func(id metricID, a, b float64) bool { return both&(1<<id) != 0 && b < a }
	if fell(mPrompt, prev.PromptTokens, cur.PromptTokens) || fell(mOutput, prev.OutputTokens, cur.OutputTokens) ||
		fell(mRequests, prev.Requests, cur.Requests) || fell(mQueries, prev.CacheQueries, cur.CacheQueries) {
		return "counters went backwards"
	}
	return ""
}
