package backend

import (
	"context"
	"encoding/json"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// LlamaCpp is the dialect of llama.cpp's server. It keeps the last prompt of each
// of its slots and reuses the longest common prefix; there are no cache events and
// no salts. Its metrics need --metrics.
type LlamaCpp struct{}

// Name returns "llamacpp".
func (LlamaCpp) Name() string { return "llamacpp" }

// HealthPath answers 503 while the model loads.
func (LlamaCpp) HealthPath() string { return "/health" }

// MetricsPath returns "/metrics"; it is answered with 501 without --metrics.
func (LlamaCpp) MetricsPath() string { return "/metrics" }

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

// Discover lists the one model and the slots.
func (LlamaCpp) Discover(ctx context.Context, c *Client) (Capabilities, error) {
	caps := Capabilities{AnyName: true, InjectUsage: true, EventsKnown: true, NoSalt: llmapi.Prompts, BlockTokens: llamaBlock}
	var err error
	if caps.Models, _, err = c.models(ctx); err != nil {
		return caps, err
	}
	body, err := c.Get(ctx, "/props", maxAnswerBytes)
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
		if len(p.Build) < 100 {
			caps.Version = p.Build
		}
	}
	return caps, nil
}

// llamaMetrics names the figures; tools/server/README.md. prompt_tokens_total
// counts what was computed, cached tokens not among them.
var llamaMetrics = map[string]metricID{
	"llamacpp:requests_processing": mRunning, "llamacpp:requests_deferred": mWaiting, "llamacpp:kv_cache_usage_ratio": mUsage,
	"llamacpp:prompt_tokens": mPrompt, "llamacpp:prompt_tokens_cached": mHits, "llamacpp:tokens_predicted": mOutput,
}

// ParseMetrics reads llama.cpp's names. Releases before 2026 do not count cached
// tokens.
func (LlamaCpp) ParseMetrics(text []byte) Metrics {
	m := readMetrics(text, llamaMetrics)
	if m.told&(1<<mHits) != 0 {
		m.CacheQueries, m.HasCache = m.PromptTokens+m.CacheHits, true
	}
	return m
}
