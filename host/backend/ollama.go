package backend

import (
	"context"
	"encoding/json"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Ollama is the dialect of Ollama: llama.cpp behind a server that loads models
// when they are asked for. It tells no figures, and its cache has no salts.
type Ollama struct{}

// Name returns "ollama".
func (Ollama) Name() string { return "ollama" }

// HealthPath is answered whatever is loaded.
func (Ollama) HealthPath() string { return "/api/version" }

// MetricsPath returns "".
func (Ollama) MetricsPath() string { return "" }

// ollamaModels is what we read of GET /api/ps and /api/tags.
type ollamaModels struct {
	Models []struct {
		Name    string `json:"name"`
		Context int    `json:"context_length"` // of a loaded one
	} `json:"models"`
}

// Discover lists the models it has; the context length is told of loaded ones
// only.
func (Ollama) Discover(ctx context.Context, c *Client) (Capabilities, error) {
	caps := Capabilities{InjectUsage: true, EventsKnown: true, NoSalt: llmapi.Prompts, BlockTokens: llamaBlock}
	body, err := c.Get(ctx, "/api/version", maxAnswerBytes)
	if err != nil {
		return caps, err
	}
	var v struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(body, &v) == nil && len(v.Version) < 100 {
		caps.Version = v.Version
	}
	has, err := ollamaList(ctx, c, "/api/tags")
	if err != nil {
		return caps, err
	}
	loaded, err := ollamaList(ctx, c, "/api/ps")
	if err != nil {
		return caps, err
	}
	context := map[string]int{}
	for _, m := range loaded.Models {
		context[m.Name] = count(m.Context)
	}
	for _, m := range has.Models {
		if m.Name == "" || len(caps.Models) == maxModels {
			continue
		}
		n := context[m.Name]
		caps.Models = append(caps.Models, Model{Name: m.Name, MaxModelLen: n})
		// A name without a tag means the tag latest.
		if short, ok := cutTag(m.Name); ok {
			caps.Models = append(caps.Models, Model{Name: short, MaxModelLen: n})
		}
		caps.CacheTokens += n
	}
	return caps, nil
}

func cutTag(name string) (string, bool) {
	const latest = ":latest"
	if n := len(name) - len(latest); n > 0 && name[n:] == latest {
		return name[:n], true
	}
	return "", false
}

func ollamaList(ctx context.Context, c *Client, path string) (*ollamaModels, error) {
	body, err := c.Get(ctx, path, maxAnswerBytes)
	if answered(err) {
		return &ollamaModels{}, nil
	}
	if err != nil {
		return nil, err
	}
	var m ollamaModels
	return &m, json.Unmarshal(body, &m)
}

// ParseMetrics returns nothing.
func (Ollama) ParseMetrics([]byte) Metrics { return Metrics{} }
