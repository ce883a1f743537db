package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/replay"
)

// Sources is where scenarios find what they name.
type Sources struct {
	Traces string // folder of recorded traces
	// Prompts opens the tokenizer of a folder; nil: the format openai cannot be read.
	Prompts func(dir string) (replay.Prompter, error)
}

// formats are the readers of traces by name.
var formats = map[string]func(path string, r *Recording, s *Sources) (*replay.Trace, error){
	"azure": func(path string, _ *Recording, _ *Sources) (*replay.Trace, error) { return replay.OpenAzure(path) },
	"decisions": func(path string, _ *Recording, _ *Sources) (*replay.Trace, error) {
		return replay.OpenDecisions(path)
	},
	"mooncake": func(path string, _ *Recording, _ *Sources) (*replay.Trace, error) { return replay.OpenMooncake(path) },
	"openai": func(path string, r *Recording, s *Sources) (*replay.Trace, error) {
		if r.Tokenizer == "" || s.Prompts == nil {
			return nil, errors.New("the format openai needs a tokenizer: the folder with the model's tokenizer files")
		}
		p, err := s.Prompts(r.Tokenizer)
		if err != nil {
			return nil, err
		}
		return replay.OpenOpenAI(path, p)
	},
	"weka": func(path string, r *Recording, _ *Sources) (*replay.Trace, error) {
		c, err := replay.OpenWEKA(path, replay.Filter{CutBlocks: r.MaxContext / replay.WEKABlock, Skip: r.Skip,
			Conversations: r.Conversations})
		return &replay.Trace{BlockTokens: replay.WEKABlock, Conversations: c}, err
	},
}

// Formats returns the names of the formats of traces.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// format returns the format of a recording: as it says, else by its file's name.
func (r *Recording) format() string {
	if r.Format != "" {
		return r.Format
	}
	switch name := strings.ToLower(r.File); {
	case strings.Contains(name, "weka"):
		return "weka"
	case strings.Contains(name, ".csv"):
		return "azure"
	case strings.Contains(name, "decision"):
		return "decisions"
	case r.Tokenizer != "":
		return "openai"
	}
	return "mooncake"
}

// open reads the recording and selects conversations.
func (r *Recording) open(path string, s *Sources) (*replay.Trace, error) {
	t, err := formats[r.format()](path, r, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t.Name = r.File
	if r.format() != "weka" { // which selects as it reads
		t.Conversations = t.Conversations[min(r.Skip, len(t.Conversations)):]
		if r.Conversations > 0 {
			t.Conversations = t.Conversations[:min(r.Conversations, len(t.Conversations))]
		}
	}
	return t, nil
}
