package main

// column is one line of a registry. Numbers are identifiers of this build
// only: a plugin names columns, it never numbers them.
type column struct {
	name, typ, unit string
	def             float64
	meaning         string
}

// candidateColumns may be named by filter, score and pick.
var candidateColumns = []column{
	{"matched_tokens", "f32", "tokens", 0, "leading prompt tokens held in any tier, as the engine would reuse them"},
	{"matched_tokens_gpu", "f32", "tokens", 0, "of these, in GPU memory"},
	{"matched_tokens_cpu", "f32", "tokens", 0, "of these, in host memory only"},
	{"matched_tokens_disk", "f32", "tokens", 0, "of these, on disk or remote only"},
	{"matched_ratio", "f32", "ratio", 0, "matched_tokens / prompt tokens, in [0, 1]"},
	{"uncached_tokens", "f32", "tokens", 1,
		"prompt tokens to compute there, at least 1: matches weighted by tier, trust and affinity_weight"},
	{"outstanding_uncached_tokens", "f32", "tokens", 0,
		"uncached tokens that are not prefilled yet: of requests that this router sent, and an estimate of others that the " +
			"engine reports"},
	{"inflight", "f32", "requests", 0, "requests that this router has there, and others that the engine reports"},
	{"kv_active_tokens", "f32", "tokens", 0, "tokens of those requests"},
	{"speed", "f32", "ratio", 1, "S(w): how much longer a token takes there than on the mean of the candidates"},
	{"running", "f32", "requests", 0, "as the engine reported, age_ms ago"},
	{"waiting", "f32", "requests", 0, "as the engine reported, age_ms ago"},
	{"kv_usage", "f32", "ratio", 0, "share of KV memory in use as the engine reported, age_ms ago, in [0, 1]"},
	{"kv_cached_tokens", "f32", "tokens", 0,
		"tokens whose blocks the index knows there, or the model of a cache without events has; up to a second old"},
	{"kv_capacity_tokens", "f32", "tokens", 0,
		"capacity of the KV memory as the engine reported: blocks × tokens per block; 0 = unknown"},
	{"kv_evict_rate", "f32", "tokens/s", 0,
		"tokens evicted according to its cache events, mean of about the last 10 s; up to a second old; 0 without events"},
	{"est_prefill_ms", "f32", "ms", 0,
		"uncached_tokens / prefill_rate, of an endpoint without one by the mean of the candidates; 0 = nothing learned yet"},
	{"est_queue_ms", "f32", "ms", 0,
		"outstanding_uncached_tokens / prefill_rate, likewise; 0 = nothing waits, or nothing learned yet"},
	{"est_itl_ms", "f32", "ms", 0,
		"time between two output tokens: median of the last 64 streamed answers that reported their tokens, 0 before 8"},
	{"prefill_rate", "f32", "tokens/s", 0,
		"learned: 90th percentile of the last 64 prompts of 1,024 uncached tokens or more, 0 before 8"},
	{"decode_rate", "f32", "tokens/s", 0, "output tokens of one request: 1000 / est_itl_ms, 0 before 8"},
	{"transfer_ms", "f32", "ms", 0,
		"estimated time to move the prefix there from where it is; always 0: filled by hosts that move prefixes between " +
			"endpoints"},
	{"colocated", "f32", "flag", 0,
		"1 = on one host with the endpoint of the other slot; always 0: filled by hosts that place prefill and decode apart"},
	{"rtt_ms", "f32", "ms", 0,
		"shortest of the last 16 health checks: the round trip and a fraction of a millisecond, 0 before the first"},
	{"age_ms", "f32", "ms", 0, "age of the figures the engine reported; 1e9 = it never did"},
	{"events_age_ms", "f32", "ms", 0, "age of the last cache event; 1e9 = none came"},
	{"index_trust", "f32", "ratio", 1, "how far predictions of matches came true, in [0, 1]"},
	{"adapter_state", "u32", "", 0,
		"0 no adapter asked for; 1 requests ran with it there at the last scrape; 2 the engine lists it; 3 the engine " +
			"lists no models"},
	{"draining", "f32", "flag", 0, "1 = takes no new sessions; always 0: this host offers no endpoint that drains"},
	{"warm_age_ms", "f32", "ms", 0, "time since it took requests again, or first"},
	{"error_rate", "f32", "ratio", 0,
		"share of failed requests (no answer, 5xx but 503), in [0, 1]: moving mean of about 32, halved by each minute " +
			"without one"},
	{"price", "f32", "", 0, "price of a GPU second, as the pool's configuration has it, 0 = not set"},
	{"spot", "f32", "flag", 0, "1 = may be taken away, as the pool's configuration has it"},
	{"prefer_weight", "f32", "", 0,
		"sum of the weights of the policy's preferences for it, at least 0; the host takes it off the cost by itself"},
	{"affinity_weight", "f32", "", 1,
		"how much the policy lets a cached prefix count, the same for all; uncached_tokens has it already"},
	{"session_match", "f32", "flag", 0, "1 = the last request of the session was placed here"},
	{"decode_delay_tokens", "f32", "tokens", 0,
		"cost of an answer that is decoded more than twice as slowly there as on the fastest candidate: a tenth of the " +
			"delay, at the mean prefill rate; halves while nothing is answered there; 0 = not slow, or nothing learned yet"},
	{"endpoint_id", "u32", "", 0, "slot in the low 12 bits, epoch of the slot above"},
}

// requestColumns are slots of 8 bytes that filter, score and pick may name.
var requestColumns = []column{
	{"model_id", "u32", "", 0, "number of the model in this revision of the rules"},
	{"adapter_id", "u32", "", 0, "number of the LoRA adapter in this revision of the rules, 0 = none"},
	{"operation", "u32", "", 0, "0 chat, 1 completions, 2 other, 3 responses, 4 messages"},
	{"profile", "u32", "", 0, "number of the profile in this revision of the rules"},
	{"objective", "u32", "", 0, "0 blend, 1 ttft, 2 throughput"},
	{"tenant_hash", "u64", "", 0, "keyed hash of the tenant"},
	{"size_class", "u32", "", 0, "log2 of the body's bytes, rounded up"},
	{"capacity_state", "u32", "", 0,
		"0 every endpoint has room, 1 some are at their cap of requests and not among the candidates; 2 (all are) is never " +
			"scored"},
}

// outcomeColumns are what observe may name: one row per request that ended.
var outcomeColumns = []column{
	{"endpoint_row", "u32", "", 0, "row of its endpoint in the endpoint table of this batch"},
	{"endpoint_id", "u32", "", 0, "as the candidate column"},
	{"ttft_ms", "f32", "ms", 0, "dispatch to first token, 0 = none came"},
	{"e2e_ms", "f32", "ms", 0, "dispatch to end"},
	{"itl_ms", "f32", "ms", 0, "mean time between output tokens, 0 = fewer than 2"},
	{"prompt_tokens", "f32", "tokens", 0, "as the engine reported, else as counted here"},
	{"cached_tokens", "f32", "tokens", -1, "as the engine reported, -1 = not reported"},
	{"predicted_tokens", "f32", "tokens", 0, "cached tokens predicted at placement"},
	{"output_tokens", "f32", "tokens", 0, "as the engine reported"},
	{"status", "u32", "", 0, "HTTP status, 0 = none came"},
	{"failed", "f32", "flag", 0, "1 = the engine's fault"},
	{"age_ms", "f32", "ms", 0, "time from the end of the request to this batch"},
}
