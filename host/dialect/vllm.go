package dialect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// vllm is vLLM, and engines that imitate it. Sources of its fields: vLLM 0.32
// entrypoints/openai/{chat_completion,completion,responses}/protocol.py,
// entrypoints/anthropic/protocol.py and entrypoints/serve/tokenize/protocol.py.
var vllm = Dialect{
	Name: "vllm", Title: "vLLM",
	// cache_salt came for chat in 0.9 (vllm#17045), for completions in 0.10.1
	// (#20981), for gpt-oss, and with it all of responses, in 0.10.2 (#23186). The
	// Anthropic API had it last (#49498, merged in July 2026; AnthropicMessagesRequest
	// hands it to the chat request in _build_base_request); before that the field was
	// dropped in silence. 0.32 is the first release in which it was seen to work.
	Salt: Salt{Field: "cache_salt", In: Computed, Since: []Since{{Computed, 0, 11}, {Messages, 0, 32}}},
	// "Lower means earlier handling"; without the priority scheduler it does nothing.
	// The header X-Vllm-Priority, which would go before it, is never passed on.
	Priority: Priority{Field: "priority", In: Chat | Completions | Responses, LowerFirst: true},
	Has: []Members{
		{Computed, "top_k watermarking"},
		{Chat | Completions | Responses, "min_p repetition_penalty stop_token_ids include_stop_str_in_output ignore_eos"},
		{Chat | Completions | Responses, "skip_special_tokens structured_outputs"},
		{Chat | Completions, "prompt_logprobs length_penalty early_stopping use_beam_search min_tokens"},
		{Chat | Completions, "spaces_between_special_tokens"},
		{Chat | Completions, "allowed_token_ids bad_words repetition_detection"},
		{Chat | Completions, "guided_json guided_regex guided_choice guided_grammar guided_decoding_backend"},
		{Chat | Completions, "guided_whitespace_pattern"},
		{Chat | Completions, "return_tokens_as_token_ids return_token_ids return_token_offsets return_prompt_text"},
		{Chat | Completions | Tokenize | Responses, "mm_processor_kwargs"},
		{Chat | Completions | Tokenize, "add_special_tokens truncate_prompt_tokens truncation_side"},
		{Chat | Tokenize | Responses | Messages | Count, "chat_template_kwargs"},
		{Chat | Tokenize | Responses, "media_io_kwargs"},
		{Chat | Tokenize, "add_generation_prompt continue_final_message"},
		{Chat | Responses, "include_reasoning"},
		{Chat, "documents thinking_token_budget"},
		{Completions, "prompt_embeds"},
		{Responses, "previous_input_messages enable_response_messages"},
		{Tokenize, "return_token_strs"},
	},
	Internal: []string{
		"kv_transfer_params", "ec_transfer_params", "data_parallel_rank", "request_id", "session_id",
		"chat_template", "logits_processors", "vllm_xargs",
	},
	StreamUsage: true, ZeroLimit: true,
	// Checked on 0.32: prompt_logprobs reports 0 cached tokens; echo with logprobs
	// asks for them.
	WholePrompt: true,
	Health:      "/health", // 503 once the engine process is dead
	Metrics:     "/metrics", Parse: parseVLLM,
	Discover:  discoverVLLM,
	EventPort: 5557,
}

// discoverVLLM asks for version, models and event sockets. Only the models must
// be answered.
func discoverVLLM(ctx context.Context, c *Client) (caps Capabilities, err error) {
	if caps.Models, caps.MaxModelLen, err = c.Models(ctx); err != nil {
		return caps, err
	}
	if caps.Version, err = c.version(ctx, "/version"); err != nil {
		return caps, err
	}
	body, err := c.Get(ctx, "/kv_event_sources", MaxAnswerBytes)
	if err != nil {
		if answered(err) { // an older release, or a gateway that hides the path
			err = nil
		}
		return caps, err
	}
	caps.EventsKnown = true
	if caps.Events, err = parseSources(body, c.host); err != nil {
		caps.EventsFault = err.Error()
	}
	return caps, nil
}

// maxSources bounds the ranks of one engine.
const maxSources = 256

// source is one rank's entry in the answer of GET /kv_event_sources.
type source struct {
	Enabled   *bool   `json:"enable_kv_cache_events"`
	Publisher *string `json:"publisher"`
	Transport string  `json:"transport"`
	Rank      *int    `json:"data_parallel_rank"`
	Endpoint  string  `json:"endpoint"`
	Replay    *string `json:"replay_endpoint"`
	Topic     string  `json:"topic"`
}

// parseSources reads the answer of GET /kv_event_sources in its three forms: an
// object by rank (0.32: {"0": {…}}), a list, and {"sources": [list]}.
func parseSources(body []byte, host string) ([]EventSource, error) {
	var list []source
	if json.Unmarshal(body, &list) != nil {
		var wrapped struct {
			Sources []source `json:"sources"`
		}
		if err := json.Unmarshal(body, &wrapped); err != nil {
			return nil, fmt.Errorf("dialect: event sources: %v", err)
		}
		list = wrapped.Sources
		if list == nil {
			var err error
			if list, err = sourcesByRank(body); err != nil {
				return nil, err
			}
		}
	}
	var out []EventSource
	for i, s := range list {
		e := EventSource{Rank: i, Topic: s.Topic}
		if s.Rank != nil {
			e.Rank = *s.Rank
		}
		if s.Enabled != nil && !*s.Enabled || s.Publisher != nil && *s.Publisher != "zmq" || s.Transport != "" &&
			s.Transport != "zmq" || len(out) == maxSources {
			continue
		}
		var err error
		if e.Publisher, err = reachable(s.Endpoint, host); err != nil {
			return nil, err
		}
		e.Dials = !strings.Contains(s.Endpoint, "*") && !strings.Contains(s.Endpoint, "::")
		if s.Replay != nil && *s.Replay != "" {
			if e.Replay, err = reachable(*s.Replay, host); err != nil {
				return nil, err
			}
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b EventSource) int { return a.Rank - b.Rank })
	return out, nil
}

func sourcesByRank(body []byte) ([]source, error) {
	var byRank map[string]source
	if err := json.Unmarshal(body, &byRank); err != nil {
		return nil, fmt.Errorf("dialect: event sources: %v", err)
	}
	var list []source
	for key, s := range byRank {
		rank, err := strconv.Atoi(key)
		if err != nil {
			continue
		}
		s.Rank = &rank
		list = append(list, s)
	}
	return list, nil
}
