package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// VLLM is the dialect of vLLM, and of engines that imitate it.
type VLLM struct{}

// Name returns "vllm".
func (VLLM) Name() string { return "vllm" }

// HealthPath answers 503 once the engine process is dead.
func (VLLM) HealthPath() string { return "/health" }

// MetricsPath returns "/metrics".
func (VLLM) MetricsPath() string { return "/metrics" }

// ParseMetrics reads vLLM's names, old and new; see metrics.go.
func (VLLM) ParseMetrics(text []byte) Metrics { return parseVLLM(text) }

// reuseOff: these fields make vLLM skip its prefix cache (checked on 0.32:
// prompt_logprobs reports 0 cached tokens; echo with logprobs asks for them).
var reuseOff = []string{"prompt_logprobs"}

// Discover asks for version, models and event sockets. Only the models must
// be answered.
func (VLLM) Discover(ctx context.Context, c *Client) (Capabilities, error) {
	caps := Capabilities{InjectUsage: true, ReuseOff: reuseOff}
	var err error
	if caps.Models, caps.MaxModelLen, err = c.models(ctx); err != nil {
		return caps, err
	}
	if body, err := c.Get(ctx, "/version", maxAnswerBytes); err == nil {
		var v struct {
			Version string `json:"version"`
		}
		if json.Unmarshal(body, &v) == nil && len(v.Version) < 100 {
			caps.Version = v.Version
		}
	} else if !answered(err) {
		return caps, err
	}
	caps.NoSalt = unsalted(caps.Version)
	body, err := c.Get(ctx, "/kv_event_sources", maxAnswerBytes)
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

// unsalted returns the operations in which a release ignores cache_salt.
// It came for chat in 0.9 (vllm#17045), for completions in 0.10.1 (#20981), for
// gpt-oss, and with it all of responses, in 0.10.2 (#23186). The Anthropic API had
// it last (#49498, merged in July 2026); before that the field was dropped in
// silence. 0.32 is the first release in which it was seen to work.
func unsalted(version string) llmapi.Operations {
	switch {
	case !atLeast(version, 0, 11):
		return llmapi.Prompts
	case !atLeast(version, 0, 32):
		return 1 << llmapi.OpMessages
	}
	return 0
}

// answered reports whether err is the engine's answer, and not for want of one.
func answered(err error) bool {
	var status statusError
	return errors.Is(err, ErrNotOffered) || errors.As(err, &status)
}

// atLeast compares a version "major.minor…" with a release. Versions that cannot
// be read, and builds from source ("0.1.dev…"), are taken as of today.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 || strings.HasPrefix(version, "0.1.dev") {
		return true
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return true
	}
	return a > major || a == major && b >= minor
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
			return nil, fmt.Errorf("backend: event sources: %v", err)
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
		if s.Enabled != nil && !*s.Enabled || s.Publisher != nil && *s.Publisher != "zmq" || s.Transport != "" && s.Transport != "zmq" || len(out) == maxSources {
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
		return nil, fmt.Errorf("backend: event sources: %v", err)
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
