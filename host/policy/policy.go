// Package policy decides what a principal may do: which pools, which cache
// namespace, which limits. The request path enforces one [Decision].
package policy

import "github.com/kvasir-router/kvasir/host/identity"

// Input is everything that a decision may depend on. Prompts, token counts, headers,
// keys, candidates and load are not part of it.
type Input struct {
	Principal *identity.Principal
	Operation string // llmapi.Operation.String()
	Model     string // the model's name after alias resolution
	Adapter   string
	Stream    bool
	Priority  string // the class that the client requests; "" = none
	SizeClass string // of body bytes: xs s m l xl
	Labels    []Label

	Region        string // of the router
	HourUTC       int    // 0…23
	CapacityState string // of the model's pools: "ok", "scarce", "none"

	Trace *Trace // filled in by Decide; nil = not wanted
}

// Label is one label of a request: from key metadata, token claims or a header
// named in the configuration. Labels of an Input are sorted by name, one of each.
type Label = identity.Label

// Decision is the result. It is immutable, and requests may share it.
type Decision struct {
	Allow  bool
	Reason string // for the client when denied; a short machine word otherwise
	Status int    // HTTP status when denied

	Model       string       // the model to use; "" = the requested one
	Constraints []Constraint // all must hold
	Prefer      []Preference // not binding: columns of scorers
	Scope       string       // of the cache namespace: one of the Scope constants
	Salt        string       // cache salt of the namespace; "" = public, or none: then RandomSalt for each request
	Namespace   string       // keyed hash of the namespace, for logs and explain; never the salt
	Affinity    Affinity
	Profile     string // "" = default
	Priority    int    // higher = sooner
	RateClass   string // requests of one tenant and rate class share a budget; "" = default

	MaxPromptTokens   int // 0 = no limit
	MaxOutputTokens   int // 0 = no limit
	MaxConcurrency    int // requests in flight per tenant and rate class; 0 = no limit
	TokensPerMinute   int // per tenant and rate class; 0 = no limit
	RequestsPerMinute int // per tenant and rate class; 0 = no limit

	Audit    string   // one of the Audit constants: whether allows are logged; "" = sample
	Rules    []string // ids of the rules that decided, for explain
	Revision string   // of policy and data
}

// Words of Decision.Audit.
const (
	AuditNone   = "none"   // none of them
	AuditSample = "sample" // a share of them, as configured
	AuditFull   = "full"   // all
)

// Preference is not binding: endpoints whose label has one of Values score better, by
// Weight in [0, 1].
type Preference struct {
	Label  string   `json:"label"`
	Values []string `json:"values"`
	Weight float64  `json:"weight"`
}

// Affinity is how strongly a tenant's requests prefer endpoints that hold their
// prefix. The zero value means the defaults.
type Affinity struct {
	Weight   float64 // scales the credit of a cached prefix; 0 = unset = 1
	MaxShare float64 // bound on the share of one endpoint's work the tenant may hold, in (0, 1]; 0 = unset
	Sticky   bool    // sessions stay on their endpoint
}

// Constraint requires that an endpoint's label is (or is not) one of Values.
type Constraint struct {
	Label  string   `json:"label"`
	NotIn  bool     `json:"not_in,omitempty"`
	Values []string `json:"values"`
}

// Engine decides. Implementations are immutable and safe for concurrent use.
type Engine interface {
	Decide(in *Input) (*Decision, error)
}
