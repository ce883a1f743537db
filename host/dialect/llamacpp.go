package dialect

import (
	"context"
	"encoding/json"
)

// llamaCpp is llama.cpp's server. It keeps the last prompt of each of its slots and
// reuses the longest common prefix; there are no cache events and no salts. Its
// metrics need --metrics. Sources of its fields: tools/server/README.md.
var llamaCpp = Dialect{
	Name: "llamacpp", Title: "llama.cpp",
	Has: []Members{
		{Computed, "top_k"},
		{Chat | Completions | Responses, "min_p ignore_eos"},
		{Chat | Completions, "n_predict json_schema grammar samplers typical_p min_keep dynatemp_range dynatemp_exponent"},
		{Chat | Completions, "xtc_probability xtc_threshold repeat_penalty repeat_last_n mirostat mirostat_tau mirostat_eta"},
		{Chat | Completions, "dry_multiplier dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers"},
		{Chat | Completions, "n_probs t_max_predict_ms timings_per_token return_progress post_sampling_probs"},
		{Chat | Completions | Tokenize, "add_special_tokens"},
		{Chat | Tokenize | Responses | Messages | Count, "chat_template_kwargs"},
		{Chat | Tokenize, "add_generation_prompt continue_final_message"},
		{Chat, "documents reasoning_format parse_tool_calls"},
		{Tokenize, "content add_special parse_special with_pieces"},
	},
	Internal:    []string{"cache_prompt", "id_slot", "slot_id", "n_cache_reuse", "n_keep", "lora", "chat_template"},
	StreamUsage: true, ZeroLimit: true,
	Health:  "/health",  // 503 while the model loads
	Metrics: "/metrics", // 501 without --metrics
	Parse:   parseLlama, Discover: discoverLlama,
	AnyName: true, BlockTokens: llamaBlock,
}

// llamaBlock is the block size in which a slot's prompt is modelled. llama.cpp
// reuses by single tokens; 16 keeps the model of its cache small and loses at most
// 15 tokens of each prompt.
const llamaBlock = 16

// llamaProps is what we read of GET /props.
type llamaProps struct {
	Slots    int    `json:"total_slots"`
	Build    string `json:"build_info"`
	Settings struct {
		Context int `json:"n_ctx"` // of one slot
	} `json:"default_generation_settings"`
}

// discoverLlama lists the one model and the slots.
func discoverLlama(ctx context.Context, c *Client) (caps Capabilities, err error) {
	if caps.Models, _, err = c.Models(ctx); err != nil {
		return caps, err
	}
	body, err := c.Get(ctx, "/props", MaxAnswerBytes)
	if err != nil {
		if answered(err) {
			err = nil
		}
		return caps, err
	}
	var p llamaProps
	if json.Unmarshal(body, &p) == nil {
		caps.MaxModelLen = count(p.Settings.Context)
		caps.CacheTokens = count(caps.MaxModelLen * max(1, min(p.Slots, 1<<16)))
		caps.Version = shortVersion(p.Build)
	}
	return caps, nil
}

// llamaMetrics names the figures; tools/server/README.md. prompt_tokens_total
// counts what was computed, cached tokens not among them.
var llamaMetrics = map[string]metricID{
	"llamacpp:requests_processing": mRunning, "llamacpp:requests_deferred": mWaiting,
	"llamacpp:kv_cache_usage_ratio": mUsage,
	"llamacpp:prompt_tokens":        mPrompt, "llamacpp:prompt_tokens_cached": mHits, "llamacpp:tokens_predicted": mOutput,
}

// parseLlama reads llama.cpp's names. Releases before 2026 do not count cached
// tokens.
func parseLlama(text []byte) Metrics {
	m := readMetrics(text, llamaMetrics)
	if m.reported&(1<<mHits) != 0 {
		m.CacheQueries, m.HasCache = m.PromptTokens+m.CacheHits, true
	}
	return m
}
