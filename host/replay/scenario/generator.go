package scenario

import (
	"maps"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/replay"
)

// Generator makes a workload.
type Generator struct {
	Kind    string  `yaml:"kind"`    // burst or agentic
	Speed   float64 `yaml:"speed"`   // how many times as fast; default 1
	Clients int     `yaml:"clients"` // of a burst
	Turns   int     `yaml:"turns"`   // of each client or, on average, conversation
	System  int     `yaml:"system"`  // tokens of a shared system prompt
	Think   float64 `yaml:"think"`   // mean pause of a client in seconds
	Rate    float64 `yaml:"rate"`    // conversations a second that begin at random
	Number  int     `yaml:"number"`  // conversations
}

// kinds are the generators by name.
var kinds = map[string]func(g *Generator, seed uint64) *replay.Trace{
	"burst": func(g *Generator, seed uint64) *replay.Trace {
		return replay.Burst{Clients: g.Clients, Turns: g.Turns, SystemTokens: g.System, Think: g.Think}.Generate(seed)
	},
	"agentic": func(g *Generator, seed uint64) *replay.Trace {
		t := &replay.Trace{Name: "agentic", BlockTokens: replay.GeneratedBlock,
			Conversations: replay.Generate(seed, replay.Shape{Conversations: g.Number, MeanRequests: g.Turns})}
		t.Poisson(max(g.Rate, 0.01), seed)
		return t
	},
}

// Kinds returns the names of the generators.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

func (g *Generator) check(bad func(wrong bool, path, format string, args ...any)) {
	if g.Kind != "" {
		bad(kinds[g.Kind] == nil, "generate.kind", "want one of %s, got %q", strings.Join(Kinds(), ", "), g.Kind)
	}
	bad(g.Speed < 0 || g.Think < 0 || g.Rate < 0, "generate", "speed, think and rate cannot be negative")
	bad(g.Clients > maxConversations || g.Number > maxConversations, "generate", "at most %d conversations",
		maxConversations)
}

// maxConversations bounds a generated workload.
const maxConversations = 100_000

func (g *Generator) trace(seed uint64) *replay.Trace { return kinds[g.Kind](g, seed) }
