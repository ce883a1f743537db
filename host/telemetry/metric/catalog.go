package metric

//go:generate go test -count=1 -run TestDocument . -args -update

// To add a metric, add a row to its group and emit it where its number is known;
// then run make generate.

// Label names of metrics that belong together.
var (
	byEndpoint  = []string{"endpoint", "pool"}
	byPlugin    = []string{"plugin", "digest"}
	byPool      = []string{"pool"}
	byTokenizer = []string{"tokenizer"}
)

var router = newGroup("Router", "The process and the rules in force.")

// Router.
var (
	BuildInfo      = router.gauge("kvasir_build_info", Flag, "Always 1; the label holds the version.", "version")
	Revision       = router.gauge("kvasir_revision", Number, "Revision number of the rules in force.")
	ReloadFailures = router.counter("kvasir_reload_failures_total", "events",
		"Reloads that were refused and changed nothing.")
)

var requests = newGroup("Requests", "Requests as clients see them.")

// Requests.
var (
	Requests = requests.counter("kvasir_requests_total", "requests",
		"Requests by the status of their answer; 000: the client left before it.", "status")
	Failures = requests.counter("kvasir_failures_total", "requests",
		"Requests that did not end well, by cause.", "cause")
	Refused = requests.counter("kvasir_refused_total", "requests",
		"Requests that were not placed, by reason.", "reason")
	TTFTSeconds = requests.histogram("kvasir_ttft_seconds", Seconds,
		"Time from the arrival of a request to the first byte of its answer, by kind of placement.", "route")
	E2ESeconds = requests.histogram("kvasir_e2e_seconds", Seconds,
		"Time from the arrival of a request to the end of its answer, by kind of placement.", "route")
	ITLSeconds   = requests.histogram("kvasir_itl_seconds", Seconds, "Mean time between two tokens of an answer.")
	StageSeconds = requests.histogram("kvasir_stage_seconds", Seconds,
		"Time of one stage of a request: read and scan of its body, schedule, connect to an engine, "+
			"response_head: from sending to the head of the engine's answer. policy, prompt, lookup and place are "+
			"the parts of schedule.", "stage")
)

var proxy = newGroup("Proxy", "Connections and bytes.")

// Proxy.
var (
	Connections    = proxy.gauge("kvasir_connections", "connections", "Client connections.")
	Inflight       = proxy.gauge("kvasir_inflight", "requests", "Requests in progress.")
	BodyBytesHeld  = proxy.gauge("kvasir_body_bytes_held", Bytes, "Memory of request bodies.")
	ProxyRequests  = proxy.counter("kvasir_proxy_requests_total", "requests", "Requests with a served path.")
	ProxyCompleted = proxy.counter("kvasir_proxy_completed_total", "requests",
		"Answers that were forwarded whole.")
	ProxyClientGone = proxy.counter("kvasir_proxy_client_gone_total", "requests",
		"Clients that left before the end of their answer.")
	ProxyRefused = proxy.counter("kvasir_proxy_refused_total", "requests",
		"Answers of the router itself, by code.", "code")
	ProxyRetries = proxy.counter("kvasir_proxy_retries_total", "attempts",
		"Retries, by what was wrong with the attempt before.", "cause")
	ProxyBytesIn  = proxy.counter("kvasir_proxy_bytes_in_total", Bytes, "Bytes of request bodies.")
	ProxyBytesOut = proxy.counter("kvasir_proxy_bytes_out_total", Bytes, "Bytes of answers.")
)

var placement = newGroup("Placement", "Decisions of the scheduler.")

// Placement.
var (
	Placements = placement.counter("kvasir_placements_total", "requests",
		"Placements by kind: warm, spill, cold, fallback.", "kind")
	SchedulerBuiltin = placement.counter("kvasir_scheduler_builtin_total", "requests",
		"Decisions that the built-in scored because every scorer of the profile failed or was quarantined.")
	SchedulerPassedOver = placement.counter("kvasir_scheduler_passed_over_total", "requests",
		"Decisions in which the load envelope excluded an endpoint.")
	SchedulerMoves = placement.counter("kvasir_scheduler_moves_total", "requests",
		"Decisions in which a rule changed the choice that the scores made, by rule.", "rule")
	SchedulerForecasts = placement.counter("kvasir_scheduler_forecasts_total", "requests",
		"Answers whose time was predicted from what was learned of the endpoint, by what: ttft or tpot.", "what")
	SchedulerForecastSeconds = placement.counter("kvasir_scheduler_forecast_seconds_total", Seconds,
		"Sum of these predictions.", "what")
	SchedulerForecastObserved = placement.counter("kvasir_scheduler_forecast_observed_seconds_total", Seconds,
		"Sum of what came.", "what")
	SchedulerForecastError = placement.counter("kvasir_scheduler_forecast_error_seconds_total", Seconds,
		"Sum of the absolute differences; divided by what came, the relative error.", "what")
	LocalityWeight = placement.gauge("kvasir_locality_weight", Ratio,
		"Weight of cached prefixes that the guard or an operator set, 1 = as the rules say.", "model")
	LocalityLowered = placement.counter("kvasir_locality_lowered_total", "changes",
		"Times that the guard lowered the weight of cached prefixes, because the median gained and the tail lost beside "+
			"the control arm.", "model")
	FleetHitRatio = placement.gauge("kvasir_fleet_hit_ratio", Ratio,
		"Share of the last thousands of prompts' tokens that the endpoint with the longest match held.", "model")
	FleetHitRatioAfterLoss = placement.gauge("kvasir_fleet_hit_ratio_after_loss", Ratio,
		"The same after the loss of the endpoint whose loss costs most.", "model")
	SchedulerRetries = placement.counter("kvasir_scheduler_retries_total", "attempts",
		"Placements that went on to another endpoint.")
	SchedulerRepeated = placement.counter("kvasir_scheduler_repeated_failures_total", "requests",
		"Requests that two endpoints answered with 500. They count against the prompt and not against the endpoints.")
	QueueWaiting = placement.gauge("kvasir_queue_waiting", "requests", "Requests that wait for a place.")
	QueueEnded   = placement.counter("kvasir_queue_ended_total", "requests",
		"Requests that waited for a place, by how the wait ended: placed or answered; expired: their deadline "+
			"passed; client_gone: the client left; full: there was no room to wait; "+
			"too_slow: the expected wait was too long.", "end")
	QueueSeconds = placement.histogram("kvasir_queue_seconds", Seconds,
		"Time that requests waited for a place.")
)

var prompts = newGroup("Prompts", "Rendering and encoding of prompts.")

// Prompts.
var (
	PromptsExact = prompts.gauge("kvasir_prompts_exact", Flag,
		"1 if the chat prompts of the tokenizer can be exact.", byTokenizer...)
	PromptsMemoBytes = prompts.gauge("kvasir_prompts_memo_bytes", Bytes,
		"Memory of rendered and encoded prompts.", byTokenizer...)
	Prompts            = prompts.counter("kvasir_prompts_total", "prompts", "Prompts computed.", byTokenizer...)
	PromptsApproximate = prompts.counter("kvasir_prompts_approximate_total", "prompts",
		"Prompts that were not exact.", byTokenizer...)
	PromptsEncodedBytes = prompts.counter("kvasir_prompts_encoded_bytes_total", Bytes,
		"Bytes of prompts that were encoded.", byTokenizer...)
	PromptsChecks = prompts.counter("kvasir_prompts_checks_total", "prompts",
		"Prompts that were computed again from scratch and compared.", byTokenizer...)
	PromptsCheckFailures = prompts.counter("kvasir_prompts_check_failures_total", "prompts",
		"Compared prompts that differed.", byTokenizer...)
	PromptAgreed = prompts.counter("kvasir_prompt_agreed_total", "prompts",
		"Prompts whose token count the engine confirmed.")
	PromptContradicted = prompts.gauge("kvasir_prompt_contradicted", Flag,
		"1 if the engine counts the tokens of a model's prompts differently: they are approximate there.",
		"model", "endpoint")
	PromptDiffered = prompts.counter("kvasir_prompt_differed_total", "prompts",
		"Prompts whose token count the engine contradicted.")
)

var predictions = newGroup("Predictions", "Predicted and reported tokens.")

// Predictions.
var (
	PromptTokensPredicted = predictions.counter("kvasir_prompt_tokens_predicted_total", "tokens",
		"Prompt tokens of placed requests, by the index's prediction for the chosen endpoint: cached or "+
			"uncached.", "cache")
	PromptTokensReported = predictions.counter("kvasir_prompt_tokens_reported_total", "tokens",
		"Prompt tokens of answered requests, by the engine's report: cached, uncached, or unknown.", "cache")
	OutputTokens = predictions.counter("kvasir_output_tokens_total", "tokens",
		"Tokens of answers, as the engines reported them.")
	Predictions = predictions.counter("kvasir_predictions_total", "requests",
		"Predictions of cached tokens that the engine's report confirmed (exact) or not (wrong), or that were too "+
			"low where kvasir_endpoint_earlier_blocks is 1 (earlier), which is no fault of the index.", "result")
	PredictionErrorTokens = predictions.counter("kvasir_prediction_error_tokens_total", "tokens",
		"Tokens by which predictions missed the report: over, under, or earlier (too low where "+
			"kvasir_endpoint_earlier_blocks is 1).", "side")
)

var index = newGroup("Index", "The block index.")

// Index.
var (
	IndexBytes   = index.gauge("kvasir_index_bytes", Bytes, "Memory of the block index.")
	IndexBlocks  = index.gauge("kvasir_index_blocks", "blocks", "Distinct blocks in the index.")
	IndexPairs   = index.gauge("kvasir_index_pairs", "pairs", "Pairs of block and endpoint in the index.")
	IndexRuns    = index.gauge("kvasir_index_runs", "runs", "Runs of blocks in the index.")
	IndexOrphans = index.counter("kvasir_index_orphans_total", "blocks",
		"Blocks of events whose parent was not known.")
	IndexAssumedBytes = index.gauge("kvasir_index_assumed_bytes", Bytes,
		"Memory of the cache models of endpoints without events.")
	IndexPredictedBytes = index.gauge("kvasir_index_predicted_bytes", Bytes, "Memory of predictions.")
	IndexEvicted        = index.counter("kvasir_index_evicted_total", "blocks",
		"Blocks evicted to keep the byte budget.")
)

var endpoints = newGroup("Endpoints", "State, load and events of each endpoint.")

// Endpoints.
var (
	EndpointReady = endpoints.gauge("kvasir_endpoint_ready", Flag,
		"1 if the endpoint takes requests: it is ready, and its circuit breaker is not open.", byEndpoint...)
	EndpointBreakerOpen = endpoints.gauge("kvasir_endpoint_breaker_open", Flag,
		"1 if the endpoint's circuit breaker keeps requests away.", byEndpoint...)
	EndpointTrust = endpoints.gauge("kvasir_endpoint_trust", Ratio,
		"Weight of the index's predictions for the endpoint, 0 to 1.", byEndpoint...)
	EndpointEarlierBlocks = endpoints.gauge("kvasir_endpoint_earlier_blocks", Flag,
		"1 if the endpoint may hold blocks that the router has not seen: from before the router started, or of "+
			"lost events. Answers then report more cached tokens than were predicted.", byEndpoint...)
	EndpointInflight = endpoints.gauge("kvasir_endpoint_inflight", "requests",
		"Requests of this router in progress there.", byEndpoint...)
	EndpointOutstandingTokens = endpoints.gauge("kvasir_endpoint_outstanding_tokens", "tokens",
		"Uncached prompt tokens sent there and not prefilled yet.", byEndpoint...)
	EndpointKVUsage = endpoints.gauge("kvasir_endpoint_kv_usage", Ratio,
		"Share of KV memory in use, as the engine reports.", byEndpoint...)
	EndpointRestarts = endpoints.counter("kvasir_endpoint_restarts_total", "events",
		"Restarts of the engine that were seen.", byEndpoint...)
	EndpointParseFailures = endpoints.counter("kvasir_endpoint_parse_failures_total", "events",
		"Scrapes that the parser of the pool could not read; the engine's figures are then unknown.", byEndpoint...)
	EndpointCheckFailures = endpoints.counter("kvasir_endpoint_check_failures_total", "events",
		"Health checks that failed.", byEndpoint...)
	EventsLive = endpoints.gauge("kvasir_events_live", Flag,
		"1 if the endpoint's cache is known from its events.", byEndpoint...)
	EventsMessages = endpoints.counter("kvasir_events_messages_total", "messages",
		"Event messages taken, live and replayed.", byEndpoint...)
	EventsStoredBlocks = endpoints.counter("kvasir_events_stored_blocks_total", "blocks",
		"Blocks stored by events.", byEndpoint...)
	EventsRemovedBlocks = endpoints.counter("kvasir_events_removed_blocks_total", "blocks",
		"Blocks removed by events.", byEndpoint...)
	EventsFailed = endpoints.counter("kvasir_events_failed_total", "events",
		"Events that could not be decoded.", byEndpoint...)
	EventsGaps = endpoints.counter("kvasir_events_gaps_total", "events",
		"Gaps in the sequence of messages.", byEndpoint...)
	EventsLost = endpoints.counter("kvasir_events_lost_total", "messages",
		"Messages that no replay brought back.", byEndpoint...)
	EventsReplays = endpoints.counter("kvasir_events_replays_total", "events",
		"Replays requested.", byEndpoint...)
	EventsOrphans = endpoints.counter("kvasir_events_orphans_total", "events",
		"Stored events that came before their parent.", byEndpoint...)
	EventsResets = endpoints.counter("kvasir_events_resets_total", "events",
		"Times that the endpoint's blocks were removed from the index.", byEndpoint...)
)

var isolation = newGroup("Isolation", "Whether cached blocks of tenants are kept apart, and signs that they are not.")

// Isolation.
var (
	EndpointIsolation = isolation.gauge("kvasir_endpoint_isolation", Flag,
		"1 for the result of the endpoint's isolation probes: verified, unverified or none.", "endpoint", "pool", "isolation")
	EndpointIsolationProbes = isolation.counter("kvasir_endpoint_isolation_probes_total", "probes",
		"Isolation probes sent.", byEndpoint...)
	EndpointIsolationProbeFailures = isolation.counter("kvasir_endpoint_isolation_probe_failures_total", "probes",
		"Isolation probes without a result.", byEndpoint...)
	EndpointUnexplainedAnswers = isolation.counter("kvasir_endpoint_unexplained_answers_total", "requests",
		"Answers that reported cached tokens which the request's namespace cannot hold there.", byEndpoint...)
	EndpointUnprovenAnswers = isolation.counter("kvasir_endpoint_unproven_answers_total", "requests",
		"Such answers that prove nothing, because the router does not know all that it sent (after a kill) or blocks "+
			"had other names (after a change of the configuration).", byEndpoint...)
	EndpointIsolationRevocations = isolation.counter("kvasir_endpoint_isolation_revocations_total", "events",
		"Times that such an answer revoked the endpoint's isolation.", byEndpoint...)
	UnsaltedRequests = isolation.counter("kvasir_unsalted_requests_total", "requests",
		"Requests sent without a cache salt, by reason: public (policy says so), dedicated (the engine serves "+
			"one tenant). Any other reason is a fault.", "reason")
	ClientSalts = isolation.counter("kvasir_client_salts_total", "requests",
		"Requests in which the client named a cache salt; it was not forwarded.")
	UnexplainedCachedTokens = isolation.counter("kvasir_unexplained_cached_tokens_total", "tokens",
		"Tokens that engines reported as cached and that the request's namespace cannot hold: those of another.")
	UnprovenCachedTokens = isolation.counter("kvasir_unproven_cached_tokens_total", "tokens",
		"Tokens of the answers that kvasir_endpoint_unproven_answers_total counts.")
	SingleTokenAnswers = isolation.counter("kvasir_single_token_answers_total", "requests",
		"Answers of at most one token, which probing a cache produces.")
	TenantMissSpikes = isolation.counter("kvasir_tenant_miss_spikes_total", "events",
		"Times that the prompts of a tenant missed the cache far more than usual; the log names the tenant.")
	TenantRequests = isolation.counter("kvasir_tenant_requests_total", "requests",
		"Requests answered, by tenant.", "tenant")
	TenantSingleTokenAnswers = isolation.counter("kvasir_tenant_single_token_answers_total", "requests",
		"Answers of at most one token, by tenant.", "tenant")
	TenantPromptTokens = isolation.counter("kvasir_tenant_prompt_tokens_total", "tokens",
		"Prompt tokens of answers that reported cached tokens, by tenant.", "tenant")
	TenantCachedTokens = isolation.counter("kvasir_tenant_cached_tokens_total", "tokens",
		"Of these, reported as cached, by tenant.", "tenant")
	EndpointTenantShare = isolation.gauge("kvasir_endpoint_tenant_share", Ratio,
		"Largest share of one tenant in the endpoint's work of the last minutes, 0 to 1.", byEndpoint...)
	EndpointTenantHHI = isolation.gauge("kvasir_endpoint_tenant_hhi", Ratio,
		"Concentration of the endpoint's work of the last minutes: sum of the squares of the tenants' shares "+
			"(Herfindahl-Hirschman).", byEndpoint...)
)

var identity = newGroup("Identity and quotas", "Credentials, tokens of issuers, budgets.")

// Identity and quotas.
var (
	Credentials = identity.counter("kvasir_credentials_total", "requests",
		"Credentials, by the result of their check: accepted, anonymous, missing, unknown, limited.", "result")
	JWTCacheHits = identity.counter("kvasir_jwt_cache_hits_total", "tokens",
		"Tokens whose verification was cached.")
	JWTVerified = identity.counter("kvasir_jwt_verified_total", "tokens",
		"Tokens whose signature was verified.")
	JWTRefused = identity.counter("kvasir_jwt_refused_total", "tokens",
		"Tokens that were refused, by reason.", "reason")
	JWKSKeys       = identity.gauge("kvasir_jwks_keys", "keys", "Usable keys of an issuer.", "issuer")
	JWKSAgeSeconds = identity.gauge("kvasir_jwks_age_seconds", Seconds,
		"Time since an issuer's keys were fetched.", "issuer")
	JWKSFetchFailures = identity.counter("kvasir_jwks_fetch_failures_total", "events",
		"Fetches of an issuer's keys that failed.", "issuer")
	QuotaBudgets = identity.gauge("kvasir_quota_budgets", "budgets",
		"Budgets of tenants and rate classes in use.")
	QuotaShared = identity.counter("kvasir_quota_shared_total", "requests",
		"Requests counted in a common budget because there were too many budgets.")
	QuotaRefused = identity.counter("kvasir_quota_refused_total", "requests",
		"Requests over a limit of their tenant, by limit.", "limit")
)

var policy = newGroup("Policy", "The policy in force and its decisions.")

// Policy.
var (
	PolicyLoaded = policy.gauge("kvasir_policy_loaded", Flag,
		"1 if a policy is in force, 0 if requests are refused for lack of one.", "revision")
	PolicyLoads        = policy.counter("kvasir_policy_loads_total", "events", "Policies that were put in force.")
	PolicyLoadFailures = policy.counter("kvasir_policy_load_failures_total", "events",
		"Policies that were refused; the previous policy stayed in force.")
	PolicyStaleSeconds = policy.gauge("kvasir_policy_stale_seconds", Seconds,
		"Time for which the policy in force has not been the newest; 0: it is.")
	PolicyCacheHits   = policy.counter("kvasir_policy_cache_hits_total", "decisions", "Decisions from the cache.")
	PolicyCacheMisses = policy.counter("kvasir_policy_cache_misses_total", "decisions",
		"Decisions that were not cached.")
	PolicyCacheEvicted = policy.counter("kvasir_policy_cache_evicted_total", "decisions",
		"Cached decisions that were evicted for others.")
	PolicyCacheEntries = policy.gauge("kvasir_policy_cache_entries", "decisions", "Cached decisions.")
	PolicyEvaluations  = policy.counter("kvasir_policy_evaluations_total", "events",
		"Evaluations of the policy.")
	PolicyEvaluationSeconds = policy.counter("kvasir_policy_evaluation_seconds_total", Seconds,
		"Time spent evaluating the policy.")
	PolicyErrors    = policy.counter("kvasir_policy_errors_total", "events", "Evaluations that gave no decision.")
	PolicyFallbacks = policy.counter("kvasir_policy_fallbacks_total", "requests",
		"Requests allowed although the policy gave no decision.")
)

var logs = newGroup("Audit and decision log", "What was written, and what could not be.")

// Audit and decision log.
var (
	AuditLines = logs.gauge("kvasir_audit_lines", Number, "Number of the audit log's last line.")
	AuditHead  = logs.gauge("kvasir_audit_head", Number,
		"First 48 bits of the hash of the audit log's last line. With kvasir_audit_lines it shows whether the "+
			"end of the log was cut off.")
	AuditFailures = logs.counter("kvasir_audit_failures_total", "events",
		"Events that could not be written to the audit log.")
	DecisionLogWritten = logs.counter("kvasir_decision_log_written_total", "decisions",
		"Decisions written to the decision log.")
	DecisionLogDropped = logs.counter("kvasir_decision_log_dropped_total", "decisions",
		"Decisions that belong in the decision log and are missing.")
	DecisionLogWaiting = logs.gauge("kvasir_decision_log_waiting", "decisions",
		"Decisions that wait to be written.")
	DecisionLogFailing = logs.gauge("kvasir_decision_log_failing", Flag,
		"1 if the decision log cannot be written.")
	DecisionLogRefused = logs.counter("kvasir_decision_log_refused_total", "requests",
		"Requests refused because their decision could not be logged.")
)

var plugins = newGroup("Plugins", "Calls and faults of plugins and shadows.")

// Plugins.
var (
	PluginCalls = plugins.counter("kvasir_plugin_calls_total", "calls",
		"Calls that the plugin answered.", byPlugin...)
	PluginAbstained = plugins.counter("kvasir_plugin_abstained_total", "calls",
		"Calls in which the plugin gave no opinion.", byPlugin...)
	PluginBusy = plugins.counter("kvasir_plugin_busy_total", "calls",
		"Calls for which the plugin had no free instance.", byPlugin...)
	PluginFaults = plugins.counter("kvasir_plugin_faults_total", "calls",
		"Calls that failed, by reason.", "plugin", "digest", "reason")
	PluginObserved = plugins.counter("kvasir_plugin_observed_total", "requests",
		"Outcomes of requests that the plugin received.", byPlugin...)
	PluginUnobserved = plugins.counter("kvasir_plugin_unobserved_total", "requests",
		"Outcomes of requests that the plugin failed to take.", byPlugin...)
	PluginFuelUnits = plugins.gauge("kvasir_plugin_fuel_units", "fuel",
		"Units of fuel, about instructions, that a timed call used.", byPlugin...)
	PluginCallSeconds = plugins.gauge("kvasir_plugin_call_seconds", Seconds,
		"Moving mean of the time of a call.", byPlugin...)
	PluginQuarantined = plugins.gauge("kvasir_plugin_quarantined", Flag,
		"1 if the plugin is not called because of its faults.", byPlugin...)
	PluginAside = plugins.gauge("kvasir_plugin_aside", Flag,
		"1 for a module that does not load: another version, or the built-in, takes its place.", "plugin", "source", "digest")
	PluginLoads = plugins.counter("kvasir_plugin_loads_total", "events",
		"Plugins loaded; each was put in force with the rules that name it, or refused with them.")
	PluginReported = plugins.gauge("kvasir_plugin_reported", Number,
		"Numbers that plugins report themselves.", "plugin", "name")
	OutcomesDropped = plugins.counter("kvasir_outcomes_dropped_total", "requests",
		"Outcomes that no plugin received: queue_full: they came too fast; endpoint_gone: their endpoint was "+
			"removed.", "reason")
	ShadowDecisions = plugins.counter("kvasir_shadow_decisions_total", "decisions",
		"Decisions in which the shadow was compared.", byPlugin...)
	ShadowElsewhere = plugins.counter("kvasir_shadow_elsewhere_total", "decisions",
		"Decisions in which the shadow prefers another endpoint.", byPlugin...)
	ShadowRankAgreement = plugins.gauge("kvasir_shadow_rank_agreement", Ratio,
		"Mean over decisions of Kendall's tau of the shadow and the active plugin, -1 to 1.", byPlugin...)
	ShadowAbstained = plugins.counter("kvasir_shadow_abstained_total", "calls",
		"Calls in which the shadow gave no opinion.", byPlugin...)
	ShadowFaults = plugins.counter("kvasir_shadow_faults_total", "calls",
		"Calls of the shadow that gave no answer.", byPlugin...)
	ShadowSkipped = plugins.counter("kvasir_shadow_skipped_total", "decisions",
		"Decisions for which the shadow was not called: they came too fast, or by a configuration that came "+
			"after it.", byPlugin...)
)

var autoscaling = newGroup("Autoscaling", "Sizes of pools and the waiting room.")

// Autoscaling.
var (
	AutoscaleReady = autoscaling.gauge("kvasir_autoscale_ready", "endpoints",
		"Endpoints that serve.", byPool...)
	AutoscalePending = autoscaling.gauge("kvasir_autoscale_pending", "endpoints",
		"Endpoints that were ordered and do not serve yet.", byPool...)
	AutoscaleDraining = autoscaling.gauge("kvasir_autoscale_draining", "endpoints",
		"Endpoints that are being drained.", byPool...)
	AutoscaleFailing = autoscaling.gauge("kvasir_autoscale_failing", "endpoints",
		"Endpoints that served and have been away for long.", byPool...)
	AutoscaleNeverCame = autoscaling.counter("kvasir_autoscale_never_came_total", "endpoints",
		"Endpoints that were ordered and given up.", byPool...)
	AutoscaleDriverErrors = autoscaling.counter("kvasir_autoscale_driver_errors_total", "calls",
		"Calls of the driver that failed or gave an invalid answer.", byPool...)
	AutoscaleDesired = autoscaling.gauge("kvasir_autoscale_desired", "endpoints",
		"Endpoints that the pool and its overflows should have.", byPool...)
	AutoscaleWork = autoscaling.gauge("kvasir_autoscale_work", Ratio,
		"Offered work, in endpoint-seconds per second.", byPool...)
	AutoscaleBacklogSeconds = autoscaling.gauge("kvasir_autoscale_backlog_seconds", Seconds,
		"Accepted work that is not done, in endpoint-seconds.", byPool...)
	AutoscaleOverride = autoscaling.gauge("kvasir_autoscale_override", "endpoints",
		"Endpoints that the plugin proposes, followed or in shadow; absent while its proposal is ignored.", byPool...)
	AutoscaleOverrideFaults = autoscaling.counter("kvasir_autoscale_override_faults_total", "calls",
		"Calls of the plugin that failed: the built-in proposal was taken.", byPool...)
	AutoscaleScarce = autoscaling.gauge("kvasir_autoscale_scarce", Flag,
		"1 if endpoints are wanted that do not come, or none serves.", byPool...)
	WaitingRoomOccupancy = autoscaling.gauge("kvasir_waiting_room", "requests",
		"Requests that wait for the first endpoint of a pool.")
	WaitingRoom = autoscaling.counter("kvasir_waiting_room_total", "requests",
		"Requests that ever waited for one.")
	WaitingRoomRefused = autoscaling.counter("kvasir_waiting_room_refused_total", "requests",
		"Requests that were refused because too many waited.")
)
