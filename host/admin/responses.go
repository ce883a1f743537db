package admin

import (
	"time"

	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/plugstore"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// RouterStatus is what a router is and has done since it started.
type RouterStatus struct {
	Version    string          `json:"version"`
	Started    time.Time       `json:"started"`
	Revision   uint64          `json:"revision"` // of the rules in force
	RulesSince time.Time       `json:"rules_since"`
	Scheduler  scheduler.Stats `json:"scheduler"`
	Proxy      proxy.Stats     `json:"proxy"`
	Index      kvindex.Stats   `json:"index"`
	AuditHead  string          `json:"audit_head"` // NUMBER:HASH of the audit log's last line
}

// Endpoint is one endpoint as operators see it.
type Endpoint struct {
	URL          string    `json:"url"`
	Pool         string    `json:"pool"`
	Dialect      string    `json:"dialect"`
	Ready        bool      `json:"ready"`
	Reason       string    `json:"reason,omitempty"` // it is not ready, or its breaker is not closed
	State        string    `json:"state"`            // in one word, or two
	Held         string    `json:"held,omitempty"`   // by an operator
	Events       string    `json:"events"`
	EventsReason string    `json:"events_reason,omitempty"`
	FiguresWhy   string    `json:"figures_reason,omitempty"` // why the metrics of the engine are not available
	EventSource  string    `json:"event_source,omitempty"`
	Trust        float32   `json:"trust"` // in predictions, in [0, 1]
	Unverified   bool      `json:"unverified"`
	Earlier      bool      `json:"earlier_blocks"` // it may hold blocks that the router has not seen
	Isolation    string    `json:"isolation"`      // verified, unverified or none
	ProbedAt     time.Time `json:"isolation_probed_at,omitzero"`
	IsolationWhy string    `json:"isolation_reason,omitempty"`       // why it is none
	ProbeTokens  int       `json:"isolation_probe_tokens,omitempty"` // length of the longest probe
	ProbeFault   string    `json:"isolation_fault,omitempty"`
	BlockTokens  uint32    `json:"block_tokens"`
	CacheBlocks  uint32    `json:"cache_blocks"`
	MaxModelLen  uint32    `json:"max_model_len"` // tokens
	Models       []string  `json:"models"`
	Version      string    `json:"version,omitempty"` // of the engine
	Running      uint32    `json:"running"`           // requests that the engine computes
	Waiting      uint32    `json:"waiting"`           // requests in the engine's queue
	KVUsage      float32   `json:"kvusage"`           // share of KV memory in use, in [0, 1]
	Inflight     int64     `json:"inflight"`          // requests of this router
	Outstanding  int64     `json:"outstanding_uncached_tokens"`
	Restarts     uint64    `json:"restarts"`
	ScrapedAt    time.Time `json:"scraped_at,omitzero"`
}

// HoldResult reports how an endpoint is held.
type HoldResult struct {
	Endpoint string `json:"endpoint"` // URL
	Held     string `json:"held"`     // cordoned, drained, or empty: it serves
	Pools    int    `json:"pools"`    // that have it
}

// Locality reports how much cached prefixes count in placement.
type Locality struct {
	Weight float64         `json:"weight"`         // an operator's, 1 = none is in force
	Until  time.Time       `json:"until,omitzero"` // when it ends
	Models []ModelLocality `json:"models"`         // by name
}

// ModelLocality reports how much cached prefixes count for a model, and what they give.
type ModelLocality struct {
	Model   string   `json:"model"`
	Weight  float64  `json:"weight"`               // by the guard; 1 = as the rules say
	Lowered uint64   `json:"lowered"`              // times that the guard lowered it
	Sampled bool     `json:"sampled"`              // locality auto: only a sample of the prompts is computed
	Hit     *float64 `json:"hit_ratio"`            // share of prompt tokens that are cached; null = no prompts yet
	Spared  *float64 `json:"hit_ratio_after_loss"` // the same after the loss of the endpoint that costs most
}

// ReloadResult reports what is in force after a reload.
type ReloadResult struct {
	Revision     uint64   `json:"revision"`
	ConfigSHA256 string   `json:"config_sha256"`
	Models       int      `json:"models"`
	Pools        int      `json:"pools"`
	Changed      []string `json:"changed"`             // a line each; empty = nothing
	Restart      []string `json:"restart"`             // changes that wait for a restart, a line each
	Withdrawn    []string `json:"withdrawn,omitempty"` // credentials that were refused before all else
}

// PluginList is all plugins: loaded, stored and refused ones.
type PluginList struct {
	Plugins []Plugin `json:"plugins"`
}

// Plugin is one plugin as operators see it. Of one that is loaded with several
// configs there are several.
type Plugin struct {
	Name    string   `json:"name"`
	Digest  string   `json:"digest,omitempty"`
	Version string   `json:"version,omitempty"` // of the manifest
	Signer  string   `json:"signer,omitempty"`  // trusted keys that signed it
	Source  string   `json:"source"`            // stored, file or shipped
	Roles   []string `json:"roles"`
	// State is active, quarantined, stored (no profile uses it), aside (it does not
	// load, and another version is used) or refused.
	State  string       `json:"state"`
	Reason string       `json:"reason,omitempty"`
	Config string       `json:"config,omitempty"`
	Since  time.Time    `json:"since,omitzero"`
	Stats  *PluginStats `json:"stats,omitempty"`

	Active   string              `json:"active,omitempty"`   // digest
	Previous string              `json:"previous,omitempty"` // digest that a rollback activates
	Versions []plugstore.Version `json:"versions"`           // pushed ones
	Shadow   *Shadow             `json:"shadow,omitempty"`
}

// PluginStats counts since a plugin was loaded.
type PluginStats struct {
	Calls             uint64            `json:"calls"` // answered
	Abstained         uint64            `json:"abstained"`
	Busy              uint64            `json:"busy"`      // no free instance
	Faults            map[string]uint64 `json:"faults"`    // by reason
	Instances         int               `json:"instances"` // free at this moment
	Recycled          uint64            `json:"recycled"`  // replaced because their memory grew
	Sliced            bool              `json:"sliced"`    // called in slices of time: it has a runtime or is slow
	UnitsPerCandidate float64           `json:"units_per_candidate"`
	LastUnits         int64             `json:"last_units"`   // fuel of the last timed call
	LoadMicros        float64           `json:"load_call_us"` // of a call with 64 candidates when it was loaded
	CallMicros        float64           `json:"call_us"`      // moving mean
	CallMicrosMax     float64           `json:"call_max_us"`  // longest timed
	Observed          uint64            `json:"observed"`     // outcomes that it received
	Unobserved        uint64            `json:"unobserved"`   // outcomes that it failed to take
}

// Shadow is a module that scores beside the active plugin of its name.
type Shadow struct {
	Digest        string    `json:"digest"`
	Signer        string    `json:"signer,omitempty"` // trusted keys that signed it
	Since         time.Time `json:"since"`
	Decisions     uint64    `json:"decisions"`        // compared
	RankAgreement float64   `json:"rank_agreement"`   // mean of Kendall's tau, in [-1, 1]
	Elsewhere     float64   `json:"placed_elsewhere"` // share of decisions in which its best is another endpoint
	Abstained     uint64    `json:"abstained"`
	Faults        uint64    `json:"faults"`  // calls that gave no answer
	Skipped       uint64    `json:"skipped"` // decisions left out: too fast, or with a config newer than the shadow
	Quarantine    string    `json:"quarantine,omitempty"`
}

// PluginChange is what a push, an activation, a rollback or the end of a shadow
// led to.
type PluginChange struct {
	Name     string `json:"name"`
	Digest   string `json:"digest"` // "" = no pushed version is active
	Active   bool   `json:"active"`
	Used     bool   `json:"used"` // a profile or pool of the configuration names it
	Shadow   bool   `json:"shadow"`
	Signer   string `json:"signer"`             // trusted keys that signed it
	Revision uint64 `json:"revision,omitempty"` // of the rules in force, if they changed
	Note     string `json:"note,omitempty"`
}

// PolicyStatus is the policy as operators see it.
type PolicyStatus struct {
	Engine        string       `json:"engine"` // opa; static: there is no policy
	State         string       `json:"state"`  // ok; degraded: a newer one was refused; stale: and too long ago; unloaded
	Dir           string       `json:"dir,omitempty"`
	Source        string       `json:"source,omitempty"`   // directory, pushed or last_good
	Revision      string       `json:"revision,omitempty"` // of the policy
	PolicyDigest  string       `json:"policy_digest,omitempty"`
	DataDigest    string       `json:"data_digest,omitempty"`
	Since         time.Time    `json:"since,omitzero"`
	RulesRevision uint64       `json:"rules_revision"`   // of the rules that it is part of
	Inputs        []string     `json:"inputs,omitempty"` // what decisions depend on
	Tests         int          `json:"tests"`            // of its own that passed
	Cached        int          `json:"cached"`           // decisions
	Stats         policy.Stats `json:"stats"`
	StaleSeconds  float64      `json:"stale_seconds"`
	Fallbacks     uint64       `json:"fallbacks"` // requests allowed although it gave no decision
	OnError       string       `json:"on_error,omitempty"`

	LastAttempt   time.Time     `json:"last_attempt,omitzero"` // to load one
	LastError     string        `json:"last_error,omitempty"`  // of that
	Faults        policy.Faults `json:"faults,omitempty"`
	DecisionError string        `json:"decision_error,omitempty"` // the last one
	Diff          *policy.Diff  `json:"diff,omitempty"`           // of the last policy that was compared
}
