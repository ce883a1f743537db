// Package dialect holds what differs between kinds of inference engines, one file
// for each: which request field carries the cache salt and since which release, how
// a priority is written, which fields its API has beyond the common ones and which
// must never come from a client, how it is discovered and scraped, where its cache
// events are.
//
// The rest of the router asks a [Dialect] and not for its name. A further kind of
// engine is one file with one Dialect and one row in dialects. The package knows
// no other of the project, so that every layer can read it.
package dialect

import (
	"context"
	"fmt"
	"slices"
)

// Dialect is everything that is to be said of one kind of engine. Immutable once
// registered. Only Name, Health and Discover are required.
type Dialect struct {
	Name  string // in configurations and policies
	Title string // as its makers write it

	// What its requests look like.

	Salt     Salt
	Priority Priority
	Has      []Members // fields beyond those of Common
	Lacks    []string  // fields of Common that it does not read
	// Internal fields steer routing, cache or code inside the engine. Like those of
	// salt and priority they are never taken from a client, whatever engine the
	// request goes to.
	Internal []string
	// StreamUsage: stream_options.include_usage is understood, so that usage can be
	// asked for where the client did not.
	StreamUsage bool
	// NewLimits: for an operation whose field of the output limit was replaced, only
	// the newer name is sure to be read.
	NewLimits bool
	// ZeroLimit: a limit of 0 output tokens means no output, not no limit.
	ZeroLimit bool
	// WholePrompt: for log probabilities of the prompt the engine computes all of it,
	// although it is cached.
	WholePrompt bool

	// How it is watched.

	Health  string // path; 200 means healthy
	Metrics string // path that is scraped, "" = there are no metrics
	// Parse reads a scrape of Metrics. What it does not find stays zero.
	Parse func(text []byte) Metrics
	// Discover asks the engine what it is and can do. An error means that it is asked
	// again; what an engine does not offer is no error. Call Find instead.
	Discover func(ctx context.Context, c *Client) (Capabilities, error)
	// EventPort is where cache events are, replay on the next port, of an engine that
	// does not report it. 0 = it sends none.
	EventPort int
	// AnyName: the engine takes requests for names that it does not list. What it
	// serves is then what the configuration says.
	AnyName bool
	// BlockTokens is the block size in which the cache is modelled, of an engine that
	// does not report one. 0 = unknown.
	BlockTokens int

	number int // of dialects
}

// Salt is the request field of the cache salt.
type Salt struct {
	Field string // "" = caches are shared, there is no salt
	In    Fields // requests that have it, of the latest release
	Since []Since
}

// Since is the first release in which requests have something.
type Since struct {
	In           Fields
	Major, Minor int
}

// Priority is the request field of a priority.
type Priority struct {
	Field      string // "" = there is none
	In         Fields // requests that have it
	LowerFirst bool   // a lower value is handled sooner
}

// Members are fields of a request, and which requests have them.
type Members struct {
	In    Fields
	Names string // separated by spaces
}

// Fields is a set of groups of request fields, one bit each. An operation has the
// fields of its groups.
type Fields uint8

// The groups.
const (
	Chat        Fields = 1 << iota // chat.completions
	Completions                    // completions
	Tokenize                       // tokenize
	Responses                      // responses
	Messages                       // messages
	Count                          // count of a message's tokens
)

// Computed are the requests for which an engine computes a prompt.
const Computed = Chat | Completions | Responses | Messages

// Default is the name of the dialect that a pool has if it names none, and generic
// that of any server of the OpenAI API.
const (
	Default = "vllm"
	generic = "openai"
)

// dialects are all there are, in the order of their numbers.
var dialects []*Dialect

func init() {
	for _, d := range []Dialect{vllm, sglang, llamaCpp, ollama, openAI} {
		Register(d)
	}
}

// changed are called after a Register.
var changed []func()

// Register adds a dialect and returns it. It must be called before the first
// request is served, from an init function or a test. It panics if the name is
// taken, or a required field is missing.
func Register(d Dialect) *Dialect {
	if d.Name == "" || d.Health == "" || d.Discover == nil || (d.Metrics == "") != (d.Parse == nil) ||
		slices.Contains(Names(), d.Name) {
		panic(fmt.Sprintf("BUG: dialect: %q is incomplete or a duplicate", d.Name))
	}
	d.number = len(dialects)
	dialects = append(dialects, &d)
	for _, f := range changed {
		f()
	}
	return &d
}

// OnRegister has f called now and after every Register, for what is derived from
// all dialects. It must be called from an init function.
func OnRegister(f func()) {
	changed = append(changed, f)
	f()
}

// All returns the dialects in the order of their numbers. The caller must not
// change the slice.
func All() []*Dialect { return dialects }

// Names returns the names of all dialects.
func Names() []string {
	var names []string
	for _, d := range dialects {
		names = append(names, d.Name)
	}
	return names
}

// ByName returns the dialect of a name; ok is false if there is none.
func ByName(name string) (d *Dialect, ok bool) {
	for _, d := range dialects {
		if d.Name == name {
			return d, true
		}
	}
	return nil, false
}

// Of returns the dialect of a name, Default for "", and for a name that is unknown
// the one of any OpenAI server.
func Of(name string) *Dialect {
	if name == "" {
		name = Default
	}
	if d, ok := ByName(name); ok {
		return d
	}
	d, _ := ByName(generic)
	return d
}

// Number returns the dialect's index in All.
func (d *Dialect) Number() int { return d.number }

// SaltField returns the field of the cache salt in requests of a group, "" if there
// is none, in the latest release.
func (d *Dialect) SaltField(in Fields) string {
	if d.Salt.In&in == 0 {
		return ""
	}
	return d.Salt.Field
}

// Salted reports whether a release of the engine honours cache salts in requests of
// a group. version is as the engine reports it, "" = the latest.
func (d *Dialect) Salted(in Fields, version string) bool {
	if d.SaltField(in) == "" {
		return false
	}
	for _, s := range d.Salt.Since {
		if s.In&in != 0 && !atLeast(version, s.Major, s.Minor) {
			return false
		}
	}
	return true
}

// PriorityField returns the field of the priority in requests of a group, "" if
// there is none, and the engine's value of a priority that counts upwards.
func (d *Dialect) PriorityField(in Fields, priority int) (name string, value int) {
	switch {
	case d.Priority.In&in == 0:
		return "", 0
	case d.Priority.LowerFirst:
		return d.Priority.Field, -priority
	}
	return d.Priority.Field, priority
}

// Find discovers an engine and adds what the dialect says of all its engines.
func (d *Dialect) Find(ctx context.Context, c *Client) (Capabilities, error) {
	caps, err := d.Discover(ctx, c)
	if caps.BlockTokens == 0 {
		caps.BlockTokens = d.BlockTokens
	}
	if d.EventPort == 0 {
		caps.EventsKnown = true
	}
	return caps, err
}
