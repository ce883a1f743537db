package admin

import (
	"context"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// The interfaces in this file are what the API shows and changes. Their methods
// may be called concurrently. An error that wraps ErrRefused or ErrNotFound is
// answered with 422 or 404, any other error with 500.

// Explainer explains placement decisions.
type Explainer interface {
	// Explain returns the decision about the request of q, and its tenant;
	// ErrNotFound if none is kept. An empty tenant means any: an *AmbiguousError if
	// several used the request id.
	Explain(ctx context.Context, q *ExplainRequest) (decision *scheduler.Explanation, owner string, err error)
	// DryRun decides about a request without sending it.
	DryRun(ctx context.Context, q *DryRun) (*scheduler.Explanation, error)
}

// Status reports the state of the router.
type Status interface {
	// Ready returns nil if requests are served. Otherwise the error says why not; it
	// is shown without a credential and must hold no secret.
	Ready() error
	Status(ctx context.Context) (*RouterStatus, error)
	Endpoints(ctx context.Context) ([]Endpoint, error)
}

// Reloader reloads the configuration.
type Reloader interface {
	// Reload puts the files' content in force and says what changed. If it refuses
	// them, the previous rules stay in force; the error wraps ErrRefused.
	Reload(ctx context.Context) (*ReloadResult, error)
}

// Plugins manages placement plugins. Errors wrap ErrRefused, or ErrNotFound for
// unknown names and versions.
type Plugins interface {
	Plugins(ctx context.Context) ([]Plugin, error)
	// Push stores a module under a name and, if activate is set, uses it from the
	// next request on. who is recorded as its author. Push may keep code.
	Push(ctx context.Context, name string, code []byte, activate bool, who string) (*PluginChange, error)
	// Shadow stores a module and has it score beside the active module of its name,
	// which continues to place requests. It replaces an earlier shadow. who is
	// recorded as its author. Shadow may keep code.
	Shadow(ctx context.Context, name string, code []byte, who string) (*PluginChange, error)
	// EndShadow ends the shadow of a name.
	EndShadow(ctx context.Context, name string) (*PluginChange, error)
	// Activate activates a stored version.
	Activate(ctx context.Context, name, digest string) (*PluginChange, error)
	// Rollback activates the version that was active before.
	Rollback(ctx context.Context, name string) (*PluginChange, error)
	// Deactivate leaves no stored version active: the configured file or the built-in
	// plugin of that name is used again.
	Deactivate(ctx context.Context, name string) (*PluginChange, error)
}

// Keys manages API keys. Errors wrap ErrRefused, or ErrNotFound for unknown ids. A
// change is in force before the method returns.
type Keys interface {
	// Keys returns the records of all keys, without their hashes.
	Keys(ctx context.Context) ([]identity.Record, error)
	// Match returns the records that ref refers to, as identity.Match does.
	Match(ctx context.Context, ref string) ([]identity.Record, error)
	// Issue makes a key, which is stored nowhere but in the answer.
	Issue(ctx context.Context, q *KeyRequest) (IssuedKey, error)
	// Rotate issues the successor of key id, which ends after grace.
	Rotate(ctx context.Context, id string, grace time.Duration, issuer string) (IssuedKey, error)
	// Revoke ends a key: the next request with it is refused.
	Revoke(ctx context.Context, id string) (RevokedKey, error)
}

// Policies shows and replaces the policy in force. Errors wrap ErrRefused, or
// ErrNotFound if the router has no policy.
type Policies interface {
	Policy(ctx context.Context) (*PolicyStatus, error)
	// ReloadPolicy puts the policy's directory in force; force ignores its gates. On
	// error the previous policy stays in force.
	ReloadPolicy(ctx context.Context, force bool) (*PolicyStatus, error)
	// PushPolicy puts the policy in files, by path, in force until the directory
	// changes. On error the previous policy stays in force.
	PushPolicy(ctx context.Context, files map[string][]byte, force bool) (*PolicyStatus, error)
	// PolicyDiff returns the recent decisions that the policy in files, by path, would
	// change. It changes nothing.
	PolicyDiff(ctx context.Context, files map[string][]byte) (*policy.Diff, error)
	// PolicyExplain evaluates the policy in force for an input document.
	PolicyExplain(ctx context.Context, input []byte) (*policy.Explanation, error)
}

// Scaler shows what the autoscaler does.
type Scaler interface {
	// Autoscale returns what each group of pools measured, proposed and did.
	Autoscale(ctx context.Context) ([]autoscale.Status, error)
	// Notice drains an endpoint that will be taken away. An unknown pool is
	// ErrNotFound.
	Notice(ctx context.Context, n *Notice) (*Notice, error)
}

// Holder takes endpoints out of service by hand, and back.
type Holder interface {
	// Hold applies verb to the endpoint at a URL, in all pools that have it: cordon
	// (no new conversations), drain (no further requests) or uncordon (serve). It
	// lasts until uncordon, or until the router ends. An unknown endpoint is
	// ErrNotFound.
	Hold(ctx context.Context, url, verb string) (*HoldResult, error)
	// Locality returns how much cached prefixes count.
	Locality(ctx context.Context) (*Locality, error)
	// SetLocality makes cached prefixes count less until a time, and returns what is
	// in force. q has passed its Check.
	SetLocality(ctx context.Context, q *LocalityRequest) (*Locality, error)
}
