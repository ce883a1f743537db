package simengine

import (
	"fmt"
	"net"
	"net/http"
)

// serveMetrics writes vLLM's metrics as far as a router or an autoscaler reads
// them, under vLLM's names and labels.
func (e *Engine) serveMetrics(w *reply, _ *request) {
	e.mu.Lock()
	s, hung, started := e.model.Stats(), e.hung, e.started
	finished := map[string]uint64{}
	for k, v := range e.count.finished {
		finished[k] = v
	}
	e.mu.Unlock()
	m := metrics{labels: fmt.Sprintf("engine=\"0\",model_name=%q", e.cfg.Model)}
	m.buf = fmt.Appendf(m.buf, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %g\n",
		float64(started.UnixMilli())/1e3)
	m.value("num_requests_running", "gauge", "Number of requests in model execution batches.", float64(s.Running+hung))
	m.value("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", float64(s.Waiting))
	m.value("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", s.CacheUsage)
	m.head("engine_sleep_state", "gauge", "Engine sleep state.")
	m.series("engine_sleep_state", `sleep_state="awake"`, 1)
	m.value("prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.",
		float64(s.PromptTokens))
	m.value("prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.",
		float64(s.CachedTokens))
	m.value("prompt_tokens_total", "counter", "Number of prefill tokens processed.", float64(s.PromptTokens))
	m.value("prompt_tokens_cached_total", "counter", "Number of cached prompt tokens.", float64(s.CachedTokens))
	m.value("generation_tokens_total", "counter", "Number of generation tokens processed.", float64(s.OutputTokens))
	m.value("num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", 0)
	m.head("request_success_total", "counter", "Count of successfully processed requests.")
	for _, reason := range []string{"stop", "length", "abort", "error"} {
		m.series("request_success_total", fmt.Sprintf("finished_reason=%q", reason), float64(finished[reason]))
	}
	m.head("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	m.series("cache_config_info", fmt.Sprintf(`block_size="%d",enable_prefix_caching="True",kv_cache_size_tokens="%d",`+
		`num_gpu_blocks="%d",prefix_caching_hash_algo="sha256"`,
		e.cfg.BlockTokens, e.cfg.CacheBlocks*e.cfg.BlockTokens, e.cfg.CacheBlocks), 1)
	w.whole(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", m.buf)
}

// metrics is Prometheus text being written.
type metrics struct {
	labels string
	buf    []byte
}

func (m *metrics) head(name, kind, help string) {
	m.buf = fmt.Appendf(m.buf, "# HELP vllm:%s %s\n# TYPE vllm:%s %s\n", name, help, name, kind)
}

func (m *metrics) series(name, labels string, v float64) {
	if labels != "" {
		labels = "," + labels
	}
	m.buf = fmt.Appendf(m.buf, "vllm:%s{%s%s} %v\n", name, m.labels, labels, v)
}

func (m *metrics) value(name, kind, help string, v float64) {
	m.head(name, kind, help)
	m.series(name, "", v)
}

// eventSources is the answer of GET /kv_event_sources: per data parallel rank
// the publisher's configuration (vllm/config/kv_events.py).
type eventSources map[string]eventSource

type eventSource struct {
	Enabled        bool    `json:"enable_kv_cache_events"`
	Publisher      string  `json:"publisher"`
	Endpoint       string  `json:"endpoint"`
	ReplayEndpoint *string `json:"replay_endpoint"`
	BufferSteps    int     `json:"buffer_steps"`
	HWM            int     `json:"hwm"`
	MaxQueueSize   int     `json:"max_queue_size"`
	Topic          string  `json:"topic"`
}

func (e *Engine) eventSources(pub, replay net.Listener) eventSources {
	if pub == nil {
		return eventSources{}
	}
	s := eventSource{Enabled: true, Publisher: "zmq", Endpoint: e.cfg.EventsURL, BufferSteps: e.cfg.BufferSteps,
		HWM: e.cfg.HWM, MaxQueueSize: e.cfg.HWM, Topic: e.cfg.Topic}
	if s.Endpoint == "" {
		s.Endpoint = "tcp://" + pub.Addr().String()
	}
	if replay != nil {
		url := e.cfg.ReplayURL
		if url == "" {
			url = "tcp://" + replay.Addr().String()
		}
		s.ReplayEndpoint = &url
	}
	return eventSources{"0": s}
}

func (e *Engine) serveSources(w *reply, _ *request) { w.value(e.sources) }
