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
	{"uncached_tokens", "f32", "tokens", 1, "prompt tokens to compute there, at least 1: matches weighted by tier and trust"},
	{"outstanding_uncached_tokens", "f32", "tokens", 0, "uncached tokens this router sent that are not prefilled yet"},
	{"inflight", "f32", "requests", 0, "requests this router has there"},
	{"kv_active_tokens", "f32", "tokens", 0, "tokens of those requests"},
	{"speed", "f32", "ratio", 1, "S(w): how much longer a token takes there than on the mean of the candidates"},
	{"running", "f32", "requests", 0, "as the engine reported"},
	{"waiting", "f32", "requests", 0, "as the engine reported"},
	{"kv_usage", "f32", "ratio", 0, "share of KV memory in use as the engine reported, in [0, 1]"},
	{"kv_cached_tokens", "f32", "tokens", 0, "tokens whose blocks the index knows there"},
	{"kv_capacity_tokens", "f32", "tokens", 0, "tokens the KV memory holds, 0 = unknown"},
	{"kv_evict_rate", "f32", "tokens/s", 0, "tokens evicted, mean of the last window"},
	{"est_prefill_ms", "f32", "ms", 0, "estimated time to compute the uncached tokens"},
	{"est_queue_ms", "f32", "ms", 0, "estimated time until that begins"},
	{"est_itl_ms", "f32", "ms", 0, "estimated time between two output tokens"},
	{"prefill_rate", "f32", "tokens/s", 0, "learned, 0 = not yet"},
	{"decode_rate", "f32", "tokens/s", 0, "learned, 0 = not yet"},
	{"transfer_ms", "f32", "ms", 0, "estimated time to move the prefix there from where it is"},
	{"colocated", "f32", "flag", 0, "1 = on one host with the endpoint of the other slot"},
	{"rtt_ms", "f32", "ms", 0, "round trip, 0 = unknown"},
	{"age_ms", "f32", "ms", 0, "age of the figures the engine reported"},
	{"events_age_ms", "f32", "ms", 0, "age of the last cache event"},
	{"index_trust", "f32", "ratio", 1, "how far predictions of matches came true, in [0, 1]"},
	{"adapter_state", "u32", "", 0, "0 no adapter asked for, 1 loaded, 2 known, 3 unknown"},
	{"draining", "f32", "flag", 0, "1 = takes no new sessions"},
	{"warm_age_ms", "f32", "ms", 0, "time since it became ready"},
	{"error_rate", "f32", "ratio", 0, "share of failed requests in the last window, in [0, 1]"},
	{"price", "f32", "", 0, "relative price of a GPU second, 0 = not set"},
	{"spot", "f32", "flag", 0, "1 = may be taken away"},
	{"prefer_weight", "f32", "", 0, "weight a policy gives this endpoint"},
	{"affinity_weight", "f32", "", 0, "weight of the policy's affinity"},
	{"session_match", "f32", "flag", 0, "1 = the session was placed here last"},
	{"endpoint_id", "u32", "", 0, "slot in the low 12 bits, generation above"},
}

// requestColumns are slots of 8 bytes that filter, score and pick may name.
var requestColumns = []column{
	{"model_id", "u32", "", 0, "number of the model in this generation"},
	{"adapter_id", "u32", "", 0, "number of the adapter, 0 = none"},
	{"operation", "u32", "", 0, "0 chat, 1 completions, 2 other"},
	{"profile", "u32", "", 0, "number of the profile in this generation"},
	{"objective", "u32", "", 0, "0 blend, 1 ttft, 2 throughput"},
	{"tenant_hash", "u64", "", 0, "keyed hash of the tenant"},
	{"size_class", "u32", "", 0, "log2 of the body's bytes, rounded up"},
	{"capacity_state", "u32", "", 0, "0 room, 1 some candidate is above its cap, 2 all are"},
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
