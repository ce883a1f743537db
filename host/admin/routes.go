package admin

import (
	"net/http"
	"net/http/pprof"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// A server has the routes whose source it is configured with.
func hasStatus(c *Config) bool    { return c.Status != nil }
func hasExplainer(c *Config) bool { return c.Explainer != nil }
func hasReloader(c *Config) bool  { return c.Reloader != nil }
func hasPlugins(c *Config) bool   { return c.Plugins != nil }
func hasKeys(c *Config) bool      { return c.Keys != nil }
func hasPolicies(c *Config) bool  { return c.Policies != nil }
func hasHolder(c *Config) bool    { return c.Holder != nil }
func hasScaler(c *Config) bool    { return c.Scaler != nil }
func hasMetrics(c *Config) bool   { return c.Metrics != nil }

// The router as a whole.
var (
	GetHealth = addPage(page{
		at: "GET /healthz", contentType: "application/json",
		doc:     "Responds while the process runs.",
		handler: func(*Server) http.Handler { return http.HandlerFunc(health) },
	})

	GetReady = addPage(page{
		at: "GET /readyz", contentType: "application/json",
		doc:     "Whether requests are served: 200, or 503 with the reason.",
		handler: func(s *Server) http.Handler { return http.HandlerFunc(s.ready) },
	})

	GetMetrics = addPage(page{
		at: "GET /metrics", scope: ScopeMetrics, served: hasMetrics, object: "metrics", contentType: "text/plain",
		doc:     "Metrics in the Prometheus text format.",
		handler: func(s *Server) http.Handler { return s.cfg.Metrics },
	})

	GetStatus = add(row[None, *RouterStatus]{
		at: "GET /v1/status", scope: ScopeStatus, served: hasStatus,
		doc:    "What the router is and has done since it started.",
		object: fixed[None]("status"),
		handle: func(s *Server, c *call, _ *None) (*RouterStatus, error) {
			return s.cfg.Status.Status(c.context())
		},
	})

	GetOpenAPI = addPage(page{
		at: "GET /v1/openapi.json", scope: ScopeStatus, object: "openapi", contentType: "application/json",
		doc:     "This API as an OpenAPI 3.1 document.",
		handler: func(*Server) http.Handler { return http.HandlerFunc(openAPI) },
	})

	Reload = add(row[None, *ReloadResult]{
		at: "POST /v1/reload", scope: ScopeConfigReload, action: ActionReload, served: hasReloader,
		doc:    "Reads the configuration, keys, policy and plugin files again and says what changed.",
		object: fixed[None]("config"),
		handle: func(s *Server, c *call, _ *None) (*ReloadResult, error) {
			return s.cfg.Reloader.Reload(c.context())
		},
	})
)

// Why requests go where they go.
var (
	Explain = add(row[ExplainRequest, *scheduler.Explanation]{
		at: "GET /v1/explain/{id...}", scope: ScopeExplainOwn, action: ActionExplainAny, served: hasExplainer,
		doc:    "Why a served request went where it went. Another tenant's request needs explain:any and is recorded.",
		object: func(q *ExplainRequest) string { return "request/" + q.ID },
		decide: (*Server).explain,
	})

	ExplainDryRun = add(row[DryRun, *scheduler.Explanation]{
		at: "POST /v1/explain", scope: ScopeExplainOwn, action: ActionExplainAny, served: hasExplainer,
		doc:    "Where a request would go, without sending it. Another tenant needs explain:any and is recorded.",
		object: func(q *DryRun) string { return "tenant/" + q.Tenant },
		decide: (*Server).dryRun,
	})
)

// Endpoints and their number.
var (
	ListEndpoints = add(row[None, []Endpoint]{
		at: "GET /v1/endpoints", scope: ScopeEndpointRead, served: hasStatus,
		doc:    "The endpoints with their state and load.",
		object: fixed[None]("endpoints"),
		handle: func(s *Server, c *call, _ *None) ([]Endpoint, error) {
			return s.cfg.Status.Endpoints(c.context())
		},
	})

	Cordon   = add(hold("cordon", ActionCordon, "Sends an endpoint no new conversations."))
	Drain    = add(hold("drain", ActionDrain, "Sends an endpoint no further requests; those in flight continue."))
	Uncordon = add(hold("uncordon", ActionUncordon, "Lets an endpoint serve again."))

	GetLocality = add(row[None, *Locality]{
		at: "GET /v1/locality", scope: ScopeEndpointRead, served: hasHolder,
		doc: "How much cached prefixes count: by an operator and, by model, by the guard; and how much of the prompts " +
			"is cached.",
		object: fixed[None]("locality"),
		handle: func(s *Server, c *call, _ *None) (*Locality, error) { return s.cfg.Holder.Locality(c.context()) },
	})

	SetLocality = add(row[LocalityRequest, *Locality]{
		at: "POST /v1/locality", scope: ScopeEndpointWrite, action: ActionLocality, served: hasHolder,
		doc:    "Makes cached prefixes count less until a time, for every model; weight 1 ends it.",
		object: fixed[LocalityRequest]("locality"),
		decide: (*Server).setLocality,
	})

	GetAutoscale = add(row[None, []autoscale.Status]{
		at: "GET /v1/autoscale", scope: ScopeAutoscaleRead, served: hasScaler,
		doc:    "What the autoscaler measures, proposes and does for each group of pools.",
		object: fixed[None]("autoscale"),
		handle: func(s *Server, c *call, _ *None) ([]autoscale.Status, error) {
			return s.cfg.Scaler.Autoscale(c.context())
		},
	})

	GiveNotice = add(row[Notice, *Notice]{
		at: "POST /v1/autoscale/notice", scope: ScopeAutoscaleWrite, action: ActionNotice, served: hasScaler,
		doc:    "Announces that the machine of an endpoint will be terminated: the endpoint drains at once.",
		object: fixed[Notice]("autoscale"),
		decide: (*Server).notice,
	})
)

// Plugins.
var (
	ListPlugins = add(row[None, PluginList]{
		at: "GET /v1/plugins", scope: ScopePluginRead, served: hasPlugins,
		doc:    "The plugins and their versions: loaded, stored and refused ones.",
		object: fixed[None]("plugins"),
		handle: (*Server).listPlugins,
	})

	PushPlugin = add(row[PushRequest, *PluginChange]{
		at: "POST /v1/plugins", scope: ScopePluginPush, action: ActionPluginPush, served: hasPlugins,
		doc:    "Stores a module and can activate it (needs plugin:activate too) or use it as a shadow.",
		object: func(q *PushRequest) string { return "plugin/" + q.Name },
		decide: (*Server).push,
	})

	ActivatePlugin = add(row[ActivateRequest, *PluginChange]{
		at: "POST /v1/plugins/{name}/activate", scope: ScopePluginActivate, action: ActionPluginActivate, served: hasPlugins,
		doc:    "Activates a stored version.",
		object: func(q *ActivateRequest) string { return "plugin/" + q.Name },
		detail: func(q *ActivateRequest) map[string]string { return map[string]string{"digest": q.Digest} },
		handle: func(s *Server, c *call, q *ActivateRequest) (*PluginChange, error) {
			return s.cfg.Plugins.Activate(c.context(), q.Name, q.Digest)
		},
	})

	RollbackPlugin = add(row[PluginRequest, *PluginChange]{
		at: "POST /v1/plugins/{name}/rollback", scope: ScopePluginActivate, action: ActionPluginRollback, served: hasPlugins,
		doc:    "Activates the version that was active before.",
		object: ofPlugin,
		undo:   true,
		handle: func(s *Server, c *call, q *PluginRequest) (*PluginChange, error) {
			return s.cfg.Plugins.Rollback(c.context(), q.Name)
		},
	})

	DeactivatePlugin = add(row[PluginRequest, *PluginChange]{
		at: "DELETE /v1/plugins/{name}", scope: ScopePluginActivate, action: ActionPluginDeactivate, served: hasPlugins,
		doc:    "Leaves no stored version active: the configured file or the built-in plugin of that name is used again.",
		object: ofPlugin,
		undo:   true,
		handle: func(s *Server, c *call, q *PluginRequest) (*PluginChange, error) {
			return s.cfg.Plugins.Deactivate(c.context(), q.Name)
		},
	})

	EndShadow = add(row[PluginRequest, *PluginChange]{
		at: "DELETE /v1/plugins/{name}/shadow", scope: ScopePluginPush, action: ActionPluginUnshadow, served: hasPlugins,
		doc:    "Ends the shadow of a plugin.",
		object: ofPlugin,
		handle: func(s *Server, c *call, q *PluginRequest) (*PluginChange, error) {
			return s.cfg.Plugins.EndShadow(c.context(), q.Name)
		},
	})
)

// API keys. Their scopes apply to the tenants that they name, by default the
// sender's own.
var (
	ListKeys = add(row[None, KeyList]{
		at: "GET /v1/keys", scope: ScopeKeyRead, served: hasKeys,
		doc:    "The records of the keys; never a key.",
		object: fixed[None]("keys"),
		handle: (*Server).listKeys,
	})

	IssueKey = add(row[KeyRequest, IssuedKey]{
		at: "POST /v1/keys", scope: ScopeKeyIssue, action: ActionKeyIssue, served: hasKeys,
		doc:    "Issues a key for a tenant. Only the response contains the key.",
		decide: (*Server).issueKey,
	})

	RotateKey = add(row[RotateRequest, IssuedKey]{
		at: "POST /v1/keys/{id}/rotate", scope: ScopeKeyIssue, action: ActionKeyRotate, served: hasKeys,
		doc:    "Replaces a key: issues a new one; the old one expires after a grace period.",
		decide: (*Server).rotateKey,
	})

	RevokeKey = add(row[RevokeRequest, RevokedKey]{
		at: "POST /v1/keys/{id}/revoke", scope: ScopeKeyRevoke, action: ActionKeyRevoke, served: hasKeys,
		doc:    "Revokes a key: the next request with it is refused.",
		decide: (*Server).revokeKey,
	})
)

// The policy.
var (
	GetPolicy = add(row[None, *PolicyStatus]{
		at: "GET /v1/policy", scope: ScopePolicyRead, served: hasPolicies,
		doc:    "Which policy is in force, and why a newer one was refused.",
		object: fixed[None]("policy"),
		handle: func(s *Server, c *call, _ *None) (*PolicyStatus, error) {
			return s.cfg.Policies.Policy(c.context())
		},
	})

	PushPolicy = add(row[PolicyPushRequest, *PolicyStatus]{
		at: "POST /v1/policy", scope: ScopePolicyActivate, action: ActionPolicyActivate, served: hasPolicies,
		doc:    "Puts a policy in force until the policy's directory changes.",
		object: fixed[PolicyPushRequest]("policy"),
		detail: policyDetail,
		handle: func(s *Server, c *call, q *PolicyPushRequest) (*PolicyStatus, error) {
			return s.cfg.Policies.PushPolicy(c.context(), q.Files, q.Force)
		},
	})

	ReloadPolicy = add(row[PolicyReloadRequest, *PolicyStatus]{
		at: "POST /v1/policy/reload", scope: ScopePolicyActivate, action: ActionPolicyActivate, served: hasPolicies,
		doc:    "Puts the policy's directory in force.",
		object: fixed[PolicyReloadRequest]("policy"),
		detail: func(q *PolicyReloadRequest) map[string]string { return forceDetail(q.Force) },
		handle: func(s *Server, c *call, q *PolicyReloadRequest) (*PolicyStatus, error) {
			return s.cfg.Policies.ReloadPolicy(c.context(), q.Force)
		},
	})

	DiffPolicy = add(row[PolicyDiffRequest, *policy.Diff]{
		at: "POST /v1/policy/diff", scope: ScopePolicyRead, served: hasPolicies,
		doc:    "Which recent decisions a policy would change. Nothing changes.",
		object: fixed[PolicyDiffRequest]("policy"),
		handle: func(s *Server, c *call, q *PolicyDiffRequest) (*policy.Diff, error) {
			return s.cfg.Policies.PolicyDiff(c.context(), q.Files)
		},
	})

	ExplainPolicy = add(row[PolicyExplainRequest, *policy.Explanation]{
		at: "POST /v1/policy/explain", scope: ScopePolicyRead, served: hasPolicies,
		doc:    "What the policy in force decides for an input document of any tenant.",
		object: fixed[PolicyExplainRequest]("policy"),
		handle: func(s *Server, c *call, q *PolicyExplainRequest) (*policy.Explanation, error) {
			return s.cfg.Policies.PolicyExplain(c.context(), q.Input)
		},
	})
)

// The Go profiler. Each page is recorded, since memory contains prompts.
var (
	_ = addPage(profile("", "Index of the Go profiles.", pprof.Index))
	_ = addPage(profile("cmdline", "The command line.", pprof.Cmdline))
	_ = addPage(profile("profile", "A CPU profile.", pprof.Profile))
	_ = addPage(profile("symbol", "Symbols of addresses.", pprof.Symbol))
	_ = addPage(profile("trace", "An execution trace.", pprof.Trace))
)

func profile(name, doc string, h http.HandlerFunc) page {
	return page{
		at: "GET /debug/pprof/" + name, scope: ScopeDebug, action: ActionProfile, object: "process", doc: doc,
		contentType: "application/octet-stream", handler: func(*Server) http.Handler { return h },
	}
}

func ofPlugin(q *PluginRequest) string { return "plugin/" + q.Name }

// hold declares a route that takes an endpoint out of service, or back.
func hold(verb string, action Action, doc string) row[HoldRequest, *HoldResult] {
	return row[HoldRequest, *HoldResult]{
		at: "POST /v1/endpoints/" + verb, scope: ScopeEndpointWrite, action: action, served: hasHolder,
		doc:    doc,
		object: func(q *HoldRequest) string { return "endpoint/" + q.Endpoint },
		handle: func(s *Server, c *call, q *HoldRequest) (*HoldResult, error) {
			return s.cfg.Holder.Hold(c.context(), q.Endpoint, verb)
		},
	}
}
