// Package policy decides what a principal may do: which pools, which cache
// namespace, which limits. Everything the request path enforces comes from one
// [Decision].
package policy

import "github.com/kvasir-router/kvasir/host/identity"

// Input is what a decision may depend on. Never prompts, token counts,
// headers, keys, candidates or load.
type Input struct {
	Principal *identity.Principal
	Operation string // llmapi.Operation.String()
	Model     string // the model's name after alias resolution
	Adapter   string
	Stream    bool
	SizeClass string // of body bytes: xs s m l xl
}

// Decision is the answer. It is immutable and may be shared by requests.
type Decision struct {
	Allow  bool
	Reason string // for the client when denied; a short machine word otherwise
	Status int    // HTTP status when denied

	Model       string       // the model to use; "" = as asked
	Constraints []Constraint // all must hold
	Salt        string       // cache salt of the namespace; "" = public
	Namespace   string       // keyed hash of the namespace, for logs and explain; never the salt
	Profile     string       // "" = default
	Priority    int

	MaxPromptTokens int // 0 = no limit
	MaxOutputTokens int // 0 = no limit

	Rules    []string // ids of the rules that decided, for explain
	Revision string   // of policy and data
}

// Constraint demands that an endpoint's label has (or has not) one of Values.
type Constraint struct {
	Label  string   `json:"label"`
	NotIn  bool     `json:"not_in,omitempty"`
	Values []string `json:"values"`
}

// Engine decides. Implementations are immutable and safe for concurrent use.
type Engine interface {
	Decide(in *Input) (*Decision, error)
}
