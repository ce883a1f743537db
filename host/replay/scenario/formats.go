package scenario

import (
	"maps"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/replay"
)

// formats are the readers of traces by name.
var formats = map[string]func(path string, r *Recording) (*replay.Trace, error){
	"mooncake": func(path string, _ *Recording) (*replay.Trace, error) { return replay.OpenMooncake(path) },
	"weka": func(path string, r *Recording) (*replay.Trace, error) {
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
	if strings.Contains(r.File, "weka") {
		return "weka"
	}
	return "mooncake"
}

// open reads the recording and selects conversations.
func (r *Recording) open(path string) (*replay.Trace, error) {
	t, err := formats[r.format()](path, r)
	if err != nil {
		return nil, err
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
