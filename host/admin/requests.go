package admin

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/internal/secret"
)

// None is the request of a route without parameters.
type None struct{}

// ExplainRequest names a request that was served.
type ExplainRequest struct {
	ID     string `path:"id" doc:"x-request-id of the answer"`
	Tenant string `query:"tenant" doc:"of the request; default the sender's, or any for holders of explain:any"`

	// Counterfactual costs a call of every profile's scorers.
	Counterfactual bool `query:"counterfactual" doc:"true: also what other profiles and baselines would have chosen"`
}

// DryRun is a request that is only decided about.
type DryRun struct {
	Tenant string `query:"tenant" doc:"of the request; default the sender's; with the admin token, the anonymous tenant"`
	User   string `query:"user" doc:"user of the request"`
	Path   string `query:"path" doc:"of the LLM API; default /v1/chat/completions"`
	Body   []byte `body:"raw" doc:"the body as a client would send it"` // valid during the call
}

// PushRequest is a plugin module to store.
type PushRequest struct {
	Name     string `query:"name" doc:"the name to store it under"`
	Activate bool   `query:"activate" doc:"true: it places requests from the next one on"`
	Shadow   bool   `query:"shadow" doc:"true: it scores beside the active one and places nothing"`
	Code     []byte `body:"raw" doc:"the WebAssembly module"`
}

// ActivateRequest names a stored version of a plugin.
type ActivateRequest struct {
	Name   string `path:"name" doc:"the plugin"`
	Digest string `query:"digest" doc:"the version's digest, or at least 8 characters of its beginning"`
}

// PluginRequest names a plugin.
type PluginRequest struct {
	Name string `path:"name" doc:"the plugin"`
}

// RotateRequest names a key to replace.
type RotateRequest struct {
	Key   string        `path:"id" doc:"the key's id, the whole key, its note, or NAME=VALUE of its labels"`
	Grace time.Duration `query:"grace,required" doc:"how long the old key is still accepted, such as 24h"`
}

// RevokeRequest names a key to revoke.
type RevokeRequest struct {
	Key string `path:"id" doc:"the key's id, the whole key, its note, or NAME=VALUE of its labels"`
}

// KeyRequest is the body of a request for a key.
type KeyRequest struct {
	identity.Grant
	Note string `json:"note,omitempty"`
	TTL  string `json:"ttl,omitempty"` // how long it is valid, such as 720h; "" = until it is revoked

	Terms identity.Terms `json:"-"` // filled by Check, except the issuer
}

// maxNote bounds the free text in a key's record, in bytes.
const maxNote = 256

// Check reports what is wrong with q and fills in its terms.
func (q *KeyRequest) Check() error {
	if !identity.ValidTenant(q.Tenant) {
		return fmt.Errorf("tenant %q: want 1 to 128 letters, digits and ._@:/+-", q.Tenant)
	}
	if len(q.Note) > maxNote {
		return fmt.Errorf("note is longer than %d bytes", maxNote)
	}
	if field := q.secretIn(); field != "" {
		return fmt.Errorf("%s holds an API key or token: a key's record is read by others and must not hold one", field)
	}
	q.Terms.Note = q.Note
	if q.TTL != "" {
		var err error
		if q.Terms.TTL, err = time.ParseDuration(q.TTL); err != nil || q.Terms.TTL < time.Second {
			return fmt.Errorf("ttl %q: want a duration such as 720h", q.TTL)
		}
	}
	return CheckScopes(q.Scopes)
}

// secretIn returns the name of a field that holds a credential, "" if none does.
func (q *KeyRequest) secretIn() string {
	fields := map[string][]string{"tenant": {q.Tenant}, "user": {q.User}, "note": {q.Note}, "groups": q.Groups,
		"scopes": q.Scopes,
		"labels": slices.AppendSeq(slices.Collect(maps.Keys(q.Labels)), maps.Values(q.Labels))}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.ContainsFunc(fields[name], secret.Has) {
			return name
		}
	}
	return ""
}

// PolicyReloadRequest asks for the policy's directory to be put in force.
type PolicyReloadRequest struct {
	Force bool `query:"force" doc:"true: ignore policy.gates"`
}

// PolicyPushRequest is a policy to put in force.
type PolicyPushRequest struct {
	Force bool              `query:"force" doc:"true: ignore policy.gates"`
	Files map[string][]byte `body:"json" doc:"a JSON object of file names and contents in base64"`
}

// PolicyDiffRequest is a policy to compare with the one in force.
type PolicyDiffRequest struct {
	Files map[string][]byte `body:"json" doc:"a JSON object of file names and contents in base64"`
}

// PolicyExplainRequest is an input document to decide about.
type PolicyExplainRequest struct {
	Input []byte `body:"raw" doc:"the input document, as policies see it"`
}

// HoldRequest names an endpoint.
type HoldRequest struct {
	Endpoint string `query:"endpoint" doc:"its URL"`
}

// Notice announces that an endpoint will be taken away, as providers of spot machines
// do.
type Notice struct {
	Pool     string    `json:"pool"`
	Endpoint string    `json:"endpoint"`          // the driver's id, or the URL
	Deadline time.Time `json:"deadline,omitzero"` // RFC 3339; absent = in two minutes
}

// LocalityRequest makes cached prefixes count less.
type LocalityRequest struct {
	Weight float64   `json:"weight"`         // in [0, 1] of what the rules say; 1 ends what was set before
	Until  time.Time `json:"until,omitzero"` // RFC 3339; required unless weight is 1
}

// Check refuses weights outside [0, 1] and times that are missing or over.
func (q *LocalityRequest) Check(now time.Time) error {
	if !(q.Weight >= 0 && q.Weight <= 1) {
		return fmt.Errorf("%w: weight %v: want 0 to 1", ErrRefused, q.Weight)
	}
	if q.Weight < 1 && !q.Until.After(now) {
		return fmt.Errorf("%w: until %s: want a time to come", ErrRefused, q.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

// noticeTime is the time that providers of spot machines give.
const noticeTime = 2 * time.Minute

// Check reports what is wrong with n and fills in its deadline. Its errors wrap
// ErrRefused.
func (n *Notice) Check(now time.Time) error {
	if n.Pool == "" || n.Endpoint == "" {
		return fmt.Errorf("%w: missing pool or endpoint", ErrRefused)
	}
	if n.Deadline.IsZero() {
		n.Deadline = now.Add(noticeTime)
	}
	return nil
}
