package scheduler

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// Config is the rules of one revision. It is immutable once given to New.
type Config struct {
	State    *State        // shared by all revisions; required
	Policy   policy.Engine // required
	Models   []Model
	Pools    []Pool
	Profiles []Profile // one named "default" is added if absent

	// Region is where this router is, for policies. Capacity returns how much room
	// a model's pools have: "ok", "scarce" or "none"; nil = "ok". It is called for
	// every request and must not block.
	Region   string
	Capacity func(model string) string

	Revision uint64 // number of the revision, for explain

	// Edition is the edition of the endpoints that the rules are made for
	// (endpoint.Store.Switch). Requests are decided by endpoints of this edition only.
	Edition uint64
}

// Prompter computes a prompt's tokens and block hashes (tokenizer/chat). It is
// safe for concurrent use; what it cannot render exactly it reports in p.
type Prompter interface {
	Blocks(r *llmapi.Request, q *tokenizer.Query, p *tokenizer.Prompt) error
}

// TextCounter is implemented by Prompters that have a lower bound for the tokens
// of a prompt that they cannot render exactly.
type TextCounter interface {
	// AtLeast returns the lower bound. Counting may stop beyond limit.
	AtLeast(r *llmapi.Request, limit int) int
}

// Model is a name clients ask for.
type Model struct {
	Name     string
	Aliases  []string
	Pools    []PoolRef
	Prompter Prompter // nil: placed without knowledge of the prompt
	// MeasureReuse computes only a sample of the prompts while cached prefixes save less
	// time than finding them takes.
	MeasureReuse bool
	Created      int64 // for the model list, Unix seconds
}

// PoolRef is a pool that serves a model.
type PoolRef struct {
	Pool     string
	ServedAs string // the engines' name of the model, "" = Model.Name
	// Weight is the share of requests that one endpoint of the pool gets beside those of
	// the model's other pools, > 0; 0 = 1.
	Weight float64
}

// Pool is what the endpoints of one pool have in common.
type Pool struct {
	Name           string
	Authorization  string            // value of the Authorization header towards the engines, "" = none; never logged
	MaxInflight    int               // most requests in flight on one endpoint, 0 = no cap
	Timeouts       exchange.Timeouts // 0 = the proxy's default
	TLS            *tls.Config       // spoken with https endpoints; required if there are any
	UnknownFields  string            // llmapi.Rewrite.UnknownFields
	InternalFields string            // llmapi.Rewrite.InternalFields
	Priority       bool              // the engines order waiting requests by priority
	NoSalt         bool              // the engines ignore cache salts: they get public requests only, unless Dedicated
	Tenant         string            // the only tenant whose requests are sent here, "" = any
	Dedicated      bool              // all requests that are sent here are of one tenant: its cache needs no salt
}

// Profile is everything about placement that policy may choose by name.
type Profile struct {
	Name      string
	Objective Objective // "" = Blend
	// Match lists the kinds of requests that the profile is for, unless policy names a
	// profile. The first profile with a match that holds is used. None: only policy, or
	// being the default, chooses it.
	Match     []ProfileMatch
	Scorers   []Weighted // none = LeastWork with the weights of Objective; of one unit, unless normalized
	Normalize Normalize  // "" = off
	Filters   []Filter
	Picker    Picker // nil = the built-in
	Envelope  Envelope

	Conversations ConversationRules

	// Decided is called after each decision that the profile's scorers rated,
	// without locks, on the request's goroutine: it must return within
	// microseconds. parts is [Scorers][b.N], the scores of each scorer, nil for one
	// that failed. Both are valid during the call and must not be changed. May be
	// nil.
	Decided func(b *Batch, parts [][]float32)
	// Wants returns columns to fill for Decided, beside those that scorers, filters
	// and picker read. It is called on each decision. May be nil.
	Wants func() ColumnSet
	Queue Queue
	// SessionTTL is how long a session without requests keeps its endpoint. 0 = 30
	// minutes.
	SessionTTL time.Duration
	// Distrust gives cached prefixes no credit: requests are placed by load alone.
	// Matches are still looked up, for explain and the metrics.
	Distrust bool
	// Holdout is the share of requests placed by least work without locality:
	// the control arm that every gain is measured against. 0 = none. 0.01 is usual:
	// at 10 requests/s it gives 8,640 samples a day and costs under 1 % of what
	// locality gains.
	Holdout float64
}

// ConversationRules choose among endpoints of similar cost (RATIONALE.md: "Why does a
// shared system prompt not pull all traffic to one endpoint?"). They overrule the scores
// of a profile within these bounds, and need scores in tokens. For each, 0 means the
// default, which is off unless leastwork is the only scorer and the objective is not
// TTFT; a negative value is off.
type ConversationRules struct {
	// HoldTokens is how much more than the cheapest endpoint the one may cost that a
	// conversation stays on. Default 8,192, the load at which sticky routers spill:
	// 0.25 s of prefill of an 8B model on one H100. At 4,096 eight short chats on
	// four endpoints still move; at 16,384 it would outweigh the envelope.
	HoldTokens float32
	// SpreadTokens is how much more than the cheapest endpoint the one may cost that
	// a conversation begins on because fewer have begun there. Default 2,048: a
	// conversation that begins elsewhere loses nothing, so that less load outweighs it.
	SpreadTokens float32
	// JoinAfter is how many conversations begin on each holder of a shared prefix
	// before another endpoint is given a copy. Default 4: a copy costs one prefill of
	// the prefix, so copies cost at most a quarter of what sharing saved.
	JoinAfter int
}

// withDefaults returns the rules with their defaults; on says whether these are on.
func (c ConversationRules) withDefaults(on bool) ConversationRules {
	set := func(v *float32, d float32) {
		if *v == 0 && on {
			*v = d
		}
		*v = max(0, *v)
	}
	set(&c.HoldTokens, 8192)
	set(&c.SpreadTokens, 2048)
	if c.JoinAfter == 0 && on {
		c.JoinAfter = 4
	}
	c.JoinAfter = max(0, c.JoinAfter)
	return c
}

// any reports whether a rule is on.
func (c *ConversationRules) any() bool {
	return c.HoldTokens > 0 || c.SpreadTokens > 0 || c.JoinAfter > 0
}

// Envelope bounds what locality may do to load. Tokens are prefill tokens: uncached
// prompt tokens outstanding, and KV memory in use by its weight in the built-in cost.
// The zero value means the defaults; a negative value switches a bound off, and of
// SlackTokens means 0.
type Envelope struct {
	// MaxLoadRatio × mean load + SlackTokens is the most load that an endpoint may
	// have beyond what its cached tokens save the request there. Default
	// 1.5: at 1.2 the noise of a few long prompts passes warm endpoints over, at 2
	// the last of the candidates waits twice the mean.
	MaxLoadRatio float32
	// SlackTokens keeps the ratio from breaking affinity at low load, where
	// one request is many times the mean. Default 16,384: half a second of
	// prefill of an 8B model on one H100.
	SlackTokens float32
	// MaxShare is the largest share of an endpoint's outstanding work that one
	// tenant may have while others wait there too and more than SlackTokens are
	// outstanding. Default 0.5.
	MaxShare float32
}

func (e Envelope) withDefaults() Envelope {
	def := func(v *float32, d float32) {
		if *v == 0 {
			*v = d
		}
	}
	def(&e.MaxLoadRatio, 1.5)
	def(&e.SlackTokens, 16384)
	def(&e.MaxShare, 0.5)
	return e
}

// maxPools bounds the pools of one model.
const maxPools = 255

// Validate returns all errors of c, joined.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("scheduler: "+format, args...)) }
	if c.State == nil {
		bad("no state")
	}
	if c.Policy == nil {
		bad("no policy engine")
	}
	pools := map[string]bool{}
	for i := range c.Pools {
		if n := c.Pools[i].Name; n == "" || pools[n] {
			bad("%s", nameError("pool", n))
		} else {
			pools[n] = true
		}
	}
	names := map[string]bool{}
	for i := range c.Models {
		c.Models[i].validate(pools, names, bad)
	}
	profiles := map[string]bool{}
	for i := range c.Profiles {
		p := &c.Profiles[i]
		if p.Name == "" || profiles[p.Name] {
			bad("%s", nameError("profile", p.Name))
		}
		profiles[p.Name] = true
		if _, ok := objectives[p.Objective]; !ok {
			bad("profile %q: objective %q: want ttft, throughput or blend", p.Name, p.Objective)
		}
		if !p.Normalize.valid() {
			bad("profile %q: normalize %q: want off, minmax or rank", p.Name, p.Normalize)
		}
		p.validate(bad)
		if !(p.Holdout >= 0 && p.Holdout <= 1) {
			bad("profile %q: holdout %v is not in [0, 1]", p.Name, p.Holdout)
		}
	}
	return errors.Join(errs...)
}

// nameError says what is wrong with a name that is empty or in use.
func nameError(what, name string) string {
	if name == "" {
		return "empty " + what + " name"
	}
	return fmt.Sprintf("duplicate %s name %q", what, name)
}

func (p *Profile) validate(bad func(string, ...any)) {
	if len(p.Scorers) > MaxScorers || len(p.Filters) > MaxScorers {
		bad("profile %q: %d scorers and %d filters, at most %d of each", p.Name, len(p.Scorers), len(p.Filters), MaxScorers)
	}
	for i := range p.Scorers {
		s := &p.Scorers[i]
		if w := s.Weight; w == 0 || math.IsNaN(w) || math.IsInf(w, 0) {
			bad("profile %q: scorer %s: weight %v: want a finite number other than 0", p.Name, s.Scorer.Name(), w)
		}
		if first := &p.Scorers[0]; !p.Normalize.on() && s.Scorer.Unit() != first.Scorer.Unit() {
			bad("profile %q: scorer %s scores in %v, %s in %v: such scores cannot be added up; "+
				"set normalize: minmax or rank", p.Name,
				first.Scorer.Name(), first.Scorer.Unit(), s.Scorer.Name(), s.Scorer.Unit())
		}
	}
}

func (m *Model) validate(pools, names map[string]bool, bad func(string, ...any)) {
	for _, n := range append([]string{m.Name}, m.Aliases...) {
		if n == "" || names[n] {
			bad("model %q: %s", m.Name, nameError("model", n))
		}
		names[n] = true
	}
	if n := len(m.Pools); n == 0 {
		bad("model %q: no pool", m.Name)
	} else if n > maxPools {
		bad("model %q: %d pools, at most %d", m.Name, n, maxPools)
	}
	seen := map[string]bool{}
	for _, r := range m.Pools {
		if !pools[r.Pool] || seen[r.Pool] {
			bad("model %q: unknown or duplicate pool %q", m.Name, r.Pool)
		}
		if !(r.Weight >= 0) || math.IsInf(r.Weight, 0) {
			bad("model %q: pool %q: weight %v: want a positive number", m.Name, r.Pool, r.Weight)
		}
		seen[r.Pool] = true
	}
}
