package dialect

import "bytes"

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
	var r vllmReader
	wanted := func(name []byte) bool { return vllmMetric(name) != noMetric }
	eachSample(text, wanted, func(s *sample) {
		if s.value >= 0 && s.value < 1e18 { // else NaN, infinite or negative: not a count
			r.take(vllmMetric(s.name), s)
		}
	})
	m := &r.m
	if !r.hasNew { // releases that send both names send the same value
		m.CacheQueries, m.CacheHits = r.queriesOld, r.hitsOld
	}
	if !r.hasUsage {
		m.KVUsage = r.usageOld
	}
	m.KVUsage = min(m.KVUsage, 1)
	m.HasCache = r.hasNew || r.hasOld
	return *m
}

// vllmReader is a scrape being read. Old names count where the new ones are missing.
type vllmReader struct {
	m                             Metrics
	queriesOld, hitsOld, usageOld float64
	hasNew, hasOld, hasUsage      bool
	loraAt                        float64 // when the newest set of adapters was
}

// take adds one sample.
func (r *vllmReader) take(id metricID, s *sample) {
	m, v := &r.m, s.value
	m.reported |= 1 << id
	switch id {
	case mRunning, mWaiting, mStart, mPrompt, mOutput, mHits:
		m.take(id, v)
	case mUsage:
		m.KVUsage, r.hasUsage = max(m.KVUsage, v), true
	case mUsageOld:
		r.usageOld = max(r.usageOld, v)
	case mSleep:
		m.Sleeping = m.Sleeping || v > 0 && s.label("sleep_state") != "awake"
	case mConfig:
		m.BlockTokens = max(m.BlockTokens, number(s.label("block_size")))
		m.CacheBlocks += number(s.label("num_gpu_blocks"))
	case mRequests:
		m.Requests += v
		if s.label("finished_reason") == "abort" {
			m.Aborted += v
		}
	case mQueries:
		m.CacheQueries, r.hasNew = m.CacheQueries+v, true
	case mExternalHits:
		m.ExternalHits += v
	case mQueriesOld:
		r.queriesOld, r.hasOld = r.queriesOld+v, true
	case mHitsOld:
		r.hitsOld += v
	case mLoRA: // one sample for each set there has been; the value is when
		if v >= r.loraAt {
			r.loraAt, m.Adapters = v, list(s.label("running_lora_adapters"))
		}
	}
}
