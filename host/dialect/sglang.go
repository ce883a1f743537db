package dialect

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// sglang is SGLang. Its metrics need --enable-metrics, its cached tokens
// --enable-cache-report, its events --kv-events-config. Sources of its fields:
// srt/entrypoints/openai/protocol.py.
var sglang = Dialect{
	Name: "sglang", Title: "SGLang",
	// The other APIs are turned into chat without the salt.
	Salt: Salt{Field: "cache_salt", In: Chat | Completions},
	// srt/managers/schedule_policy.py: higher goes first unless the engine was started
	// with --schedule-low-priority-values-first.
	Priority: Priority{Field: "priority", In: Chat | Completions},
	Has: []Members{
		{Computed, "top_k"},
		{Chat | Completions | Responses, "min_p repetition_penalty stop_token_ids ignore_eos skip_special_tokens"},
		{Chat | Completions, "prompt_logprobs min_tokens spaces_between_special_tokens regex ebnf json_schema"},
		{Chat | Completions, "no_stop_trim stop_regex custom_params return_hidden_states"},
		{Chat | Completions | Tokenize | Responses, "mm_processor_kwargs"},
		{Chat | Completions | Tokenize, "add_special_tokens truncate_prompt_tokens"},
		{Chat | Tokenize | Responses | Messages | Count, "chat_template_kwargs"},
		{Chat | Tokenize, "add_generation_prompt continue_final_message"},
		{Chat, "documents separate_reasoning stream_reasoning"},
	},
	Internal: []string{
		"extra_key", "routed_dp_rank", "data_parallel_rank", "rid", "session_id", "session_params",
		"return_cached_tokens_details", // reports overlap in a field that masking does not reach
		"lora_path", "chat_template", "input_ids", "custom_logit_processor",
	},
	StreamUsage: true,
	WholePrompt: true,
	Health:      "/health", // answers without running a token, unlike /health_generate
	Metrics:     "/metrics", Parse: parseSGLang,
	Discover:  discoverSGLang,
	EventPort: 5557,
}

// sglangInfo is what we read of GET /server_info (before 0.5.6:
// /get_server_info): the server's arguments, and what it worked out.
type sglangInfo struct {
	Version   string          `json:"version"`
	PageSize  int             `json:"page_size"`
	Tokens    int             `json:"max_total_num_tokens"`
	Context   int             `json:"context_length"`
	DPSize    int             `json:"dp_size"`
	Events    json.RawMessage `json:"kv_events"`
	EventsArg string          `json:"kv_events_config"` // the flag, a JSON text
}

// sglangEvents is the block kv_events of newer releases, and the flag's JSON.
type sglangEvents struct {
	Publisher string `json:"publisher"`
	Endpoint  string `json:"endpoint"`
	Replay    string `json:"replay_endpoint"`
	Topic     string `json:"topic"`
}

// discoverSGLang asks for models, then for what the server was started with.
func discoverSGLang(ctx context.Context, c *Client) (caps Capabilities, err error) {
	if caps.Models, caps.MaxModelLen, err = c.Models(ctx); err != nil {
		return caps, err
	}
	body, err := c.Get(ctx, "/server_info", MaxAnswerBytes)
	if answered(err) {
		body, err = c.Get(ctx, "/get_server_info", MaxAnswerBytes)
	}
	if err != nil {
		if answered(err) {
			err = nil
		}
		return caps, err
	}
	var info sglangInfo
	if err := json.Unmarshal(body, &info); err != nil {
		return caps, fmt.Errorf("dialect: server info: %v", err)
	}
	info.fill(&caps, c.host)
	return caps, nil
}

func (i *sglangInfo) fill(caps *Capabilities, host string) {
	if len(i.Version) < 100 {
		caps.Version = i.Version
	}
	caps.BlockTokens, caps.CacheTokens = count(i.PageSize), count(i.Tokens)
	if i.Context > 0 && caps.MaxModelLen == 0 {
		caps.MaxModelLen = i.Context
	}
	text := []byte(i.Events)
	if len(text) == 0 || string(text) == "null" {
		text = []byte(i.EventsArg)
	}
	caps.EventsKnown = true
	if len(text) == 0 {
		return
	}
	var e sglangEvents
	if err := json.Unmarshal(text, &e); err != nil {
		caps.EventsFault = fmt.Sprintf("dialect: event settings: %v", err)
		return
	}
	if e.Publisher != "" && e.Publisher != "zmq" || e.Endpoint == "" {
		return
	}
	for rank := range min(max(1, i.DPSize), maxSources) {
		s, err := e.rank(rank, host)
		if err != nil {
			caps.EventsFault = err.Error()
			return
		}
		caps.Events = append(caps.Events, s)
	}
}

// rank is the source of one rank: ports count up from the configured ones.
func (e *sglangEvents) rank(n int, host string) (EventSource, error) {
	s := EventSource{Rank: n, Topic: e.Topic}
	var err error
	if s.Publisher, err = reachable(shiftPort(e.Endpoint, n), host); err != nil {
		return s, err
	}
	s.Dials = !strings.Contains(e.Endpoint, "*") && !strings.Contains(e.Endpoint, "::")
	if e.Replay != "" {
		s.Replay, err = reachable(shiftPort(e.Replay, n), host)
	}
	return s, err
}

// shiftPort adds n to an address's port; what has none is left to be refused.
func shiftPort(address string, n int) string {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(address, "tcp://"))
	p, err2 := strconv.Atoi(port)
	if err != nil || err2 != nil {
		return address
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(p+n))
}

// count is n if it can be a count of tokens, else 0.
func count(n int) int {
	if n < 0 || n > 1<<40 {
		return 0
	}
	return n
}

// sglangMetrics names the figures; docs.sglang.io, production metrics.
var sglangMetrics = map[string]metricID{
	"sglang:num_running_reqs": mRunning, "sglang:num_queue_reqs": mWaiting, "sglang:token_usage": mUsage,
	"sglang:max_total_num_tokens": mCapacity,
	"sglang:num_requests":         mRequests, "sglang:num_aborted_requests": mAborted, "sglang:prompt_tokens": mPrompt,
	"sglang:generation_tokens": mOutput,
	"sglang:cached_tokens":     mHits, "process_start_time_seconds": mStart,
}

// parseSGLang reads SGLang's names. It counts prompt tokens and, of them, cached
// ones; what was looked up is all of them.
func parseSGLang(text []byte) Metrics {
	m := readMetrics(text, sglangMetrics)
	if m.reported&(1<<mHits) != 0 {
		m.CacheQueries, m.HasCache = m.PromptTokens, true
	}
	return m
}
