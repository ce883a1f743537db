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
		m.reported |= 1 << id
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
	if !hasNew { // while both names were sent they had the same value
		m.CacheQueries, m.CacheHits = queriesOld, hitsOld
	}
	if !hasUsage {
		m.KVUsage = usageOld
	}
	m.KVUsage = min(m.KVUsage, 1)
	m.HasCache = hasNew || hasOld
	return m
}
