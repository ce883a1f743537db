package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/replay"
)

// Generator makes a workload. What is not set has the default of its kind.
type Generator struct {
	Kind    string  `yaml:"kind"`    // agentic, burst, rag, tenants or waves
	Speed   float64 `yaml:"speed"`   // how many times as fast; default 1
	Number  int     `yaml:"number"`  // conversations; of waves: waves
	Rate    float64 `yaml:"rate"`    // conversations a second, at random times
	Clients int     `yaml:"clients"` // of a burst; of waves: requests of one
	Turns   int     `yaml:"turns"`   // of each client or, on average, conversation
	System  int     `yaml:"system"`  // tokens of a system prompt
	Think   float64 `yaml:"think"`   // mean pause of a client in seconds
	Shared  int     `yaml:"shared"`  // documents, tenants, tool sets or prompts that prompts share
	Period  float64 `yaml:"period"`  // seconds between waves
}

// kinds are the generators by name.
var kinds = map[string]func(g *Generator, seed uint64) *replay.Trace{
	"burst": func(g *Generator, seed uint64) *replay.Trace {
		return replay.Burst{Clients: g.Clients, Turns: g.Turns, SystemTokens: g.System, Think: g.Think}.Generate(seed)
	},
	"agentic": func(g *Generator, seed uint64) *replay.Trace {
		t := &replay.Trace{Name: "agentic", BlockTokens: replay.GeneratedBlock, Conversations: replay.Generate(seed,
			replay.Shape{Conversations: g.Number, MeanRequests: g.Turns, Tools: g.Shared,
				SharedBlocks: g.System / replay.GeneratedBlock})}
		rate := g.Rate
		if rate == 0 {
			rate = agenticRate
		}
		t.Poisson(rate, seed)
		return t
	},
	"rag": func(g *Generator, seed uint64) *replay.Trace {
		return replay.RAG{Requests: g.Number, Rate: g.Rate, System: g.System, Documents: g.Shared}.Generate(seed)
	},
	"tenants": func(g *Generator, seed uint64) *replay.Trace {
		return replay.Tenants{Tenants: g.Shared, Conversations: g.Number, Rate: g.Rate, Turns: g.Turns, System: g.System,
			Think: g.Think}.Generate(seed)
	},
	"waves": func(g *Generator, seed uint64) *replay.Trace {
		return replay.Waves{Waves: g.Number, Siblings: g.Clients, Period: g.Period, Prompt: g.System,
			Prompts: g.Shared}.Generate(seed)
	},
}

// agenticRate is the default of the conversations a second of agents.
const agenticRate = 0.1

// Kinds returns the names of the generators.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

func (g *Generator) check(bad func(wrong bool, path, format string, args ...any)) {
	if g.Kind != "" {
		bad(kinds[g.Kind] == nil, "generate.kind", "want one of %s, got %q", strings.Join(Kinds(), ", "), g.Kind)
	}
	bad(g.Speed < 0 || g.Think < 0 || g.Rate < 0 || g.Period < 0, "generate",
		"speed, think, rate and period cannot be negative")
	// The kinds multiply two of these at most.
	bad(max(1, g.Clients)*max(1, g.Number, g.Turns) > maxConversations || g.Clients > maxConversations ||
		g.Number > maxConversations || g.Turns > maxConversations || g.Shared > maxConversations, "generate",
		"more than %d requests", maxConversations)
	bad(g.System > maxSystem, "generate.system", "want at most %d tokens, got %d", maxSystem, g.System)
}

// Bounds of a generated workload: they keep memory within a gigabyte.
const (
	maxConversations = 100_000
	maxSystem        = 200_000
)

// Generate checks the generator and returns its workload for a seed.
func (g *Generator) Generate(seed uint64) (*replay.Trace, error) {
	var errs []error
	g.check(func(wrong bool, path, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(path+": "+format, args...))
		}
	})
	if g.Kind == "" {
		errs = append(errs, errors.New("generate.kind: want one of "+strings.Join(Kinds(), ", ")))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return scale(g.trace(seed), orOne(g.Speed)), nil
}

func (g *Generator) trace(seed uint64) *replay.Trace { return kinds[g.Kind](g, seed) }
