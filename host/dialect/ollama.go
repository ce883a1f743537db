package dialect

import (
	"context"
	"encoding/json"
)

// ollama is Ollama: llama.cpp behind a server that loads models on demand. It
// reports no figures, and its cache has no salts. Source of its fields:
// docs/openai.md.
var ollama = Dialect{
	Name: "ollama", Title: "Ollama",
	Lacks: []string{"max_completion_tokens"}, Internal: []string{"keep_alive"},
	StreamUsage: true,
	Health:      "/api/version", // answered whatever is loaded
	Discover:    discoverOllama,
	BlockTokens: llamaBlock,
}

// ollamaModels is what we read of GET /api/ps and /api/tags.
type ollamaModels struct {
	Models []struct {
		Name    string `json:"name"`
		Context int    `json:"context_length"` // of a loaded one
	} `json:"models"`
}

// discoverOllama lists the models that it has; the context length is reported of
// loaded ones only.
func discoverOllama(ctx context.Context, c *Client) (caps Capabilities, err error) {
	if caps.Version, err = c.version(ctx, "/api/version"); err != nil {
		return caps, err
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
	body, err := c.Get(ctx, path, MaxAnswerBytes)
	if answered(err) {
		return &ollamaModels{}, nil
	}
	if err != nil {
		return nil, err
	}
	var m ollamaModels
	return &m, json.Unmarshal(body, &m)
}
