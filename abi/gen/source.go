package main

// constant is a name and a number with one line that says what it is.
type constant struct {
	name  string // Go: as is; C: KVASIR_ and upper case with underscores
	value uint64
	doc   string
}

// group is a run of constants under one heading.
type group struct {
	doc    string
	consts []constant
}

var groups = []group{
	{"Version of the ABI: a module's kvasir_abi returns major<<16 | minor.", []constant{
		{"Major", 1, "another major is refused"},
		{"Minor", 0, "a minor above the host's is refused"},
	}},
	{"Limits and alignments.", []constant{
		{"MaxManifestBytes", 64 << 10, "length of the manifest"},
		{"MaxErrorBytes", 1 << 10, "length of the text of kvasir_error"},
		{"MaxCandidates", 4096, "n of a batch"},
		{"BaseAlign", 16, "alignment of the address kvasir_alloc returns"},
		{"ColumnAlign", 64, "every offset in a header is a multiple of it"},
		{"StrideMultiple", 16, "strides are multiples of it"},
		{"MaxReason", 65535, "largest drop reason of a filter"},
		{"EndpointSlotBits", 12, "low bits of endpoint_id; the others are the generation"},
		{"Unwritten", 0xFFFFFFFF, "what results of filter and pick hold before the call"},
		{"UnwrittenScore", 0x7FC00000, "bits of the quiet NaN that scores, terms and published values hold before the call"},
	}},
	{"Status of a role.", []constant{
		{"StatusOK", 0, "the result is written"},
		{"StatusAbstain", 1, "no opinion on this batch; not a fault"},
		{"StatusError", 2, "a fault; kvasir_error may say more"},
		{"StatusUnsupported", 3, "only from kvasir_configure and the experimental roles"},
	}},
	{"Flags of a batch.", []constant{
		{"FlagExplain", 1, "fill the terms; the scores must not change by a bit"},
		{"FlagShadow", 2, "the result is compared, not used"},
		{"FlagReplay", 4, "the batch is from a recording; now_ms is virtual"},
	}},
	{"Header of a batch: byte offsets from its base. Offsets never move, the header only grows.", []constant{
		{"BatchSize", 0, "u32 bytes of the header"},
		{"BatchN", 4, "u32 candidates, at most MaxCandidates"},
		{"BatchStride", 8, "u32 elements of 4 bytes from one column to the next, at least n"},
		{"BatchFlags", 12, "u32 flags"},
		{"BatchPromptTokens", 16, "u32 tokens of the prompt"},
		{"BatchReserved", 20, "u32 zero"},
		{"BatchMaxTokens", 24, "u32 output tokens asked for, 0 = unknown"},
		{"BatchPriority", 28, "f32 higher = sooner"},
		{"BatchNowMs", 32, "f64 Unix milliseconds, frozen for the call"},
		{"BatchSessionHash", 40, "u64 keyed hash of the session, 0 = none"},
		{"BatchNCols", 48, "u32 columns"},
		{"BatchColsOff", 52, "u32 offset: column k is at cols_off + k*stride*4"},
		{"BatchOutOff", 56, "u32 offset of the result"},
		{"BatchReqOff", 60, "u32 offset of the request slots"},
		{"BatchSeed", 64, "u64 the only source of chance"},
		{"BatchNReq", 72, "u32 request slots of 8 bytes"},
		{"BatchTermsOff", 76, "u32 offset of the terms, 0 = none asked for"},
		{"BatchSlot", 80, "u32 place to fill: 0 serve or decode, 1 prefill"},
		{"BatchNSlots", 84, "u32 places to fill; observe: rows of the endpoint table"},
		{"BatchK", 88, "u32 wanted length of an order; observe: elements from one published column to the next"},
		{"BatchOutSize", 92, "u32 bytes of the result; filter and score: stride*4"},
		{"BatchHeaderSize", 96, "size of the header of this minor version"},
	}},
	{"Argument of kvasir_configure: byte offsets from its base.", []constant{
		{"ConfigureSize", 0, "u32 bytes of this header"},
		{"ConfigureFlags", 4, "u32 zero"},
		{"ConfigureDataOff", 8, "u32 offset of the JSON text"},
		{"ConfigureDataLen", 12, "u32 length of the JSON text"},
		{"ConfigureHeaderSize", 16, "size of the header of this minor version"},
	}},
	{"Argument of kvasir_idle: byte offsets from its base.", []constant{
		{"IdleSize", 0, "u32 bytes of this header"},
		{"IdleFuelHint", 4, "u32 units of fuel the call may use, saturated"},
		{"IdleHeaderSize", 8, "size of the header of this minor version"},
	}},
	{"Values of the request column operation. More may come: a guest takes those it does not know for OperationOther.", []constant{
		{"OperationChat", 0, "chat completions"},
		{"OperationCompletions", 1, "completions"},
		{"OperationOther", 2, "anything else"},
		{"OperationResponses", 3, "responses of OpenAI's API"},
		{"OperationMessages", 4, "messages of Anthropic's API"},
	}},
	{"Values of the request column objective.", []constant{
		{"ObjectiveBlend", 0, "latency and throughput"},
		{"ObjectiveTTFT", 1, "time to the first token"},
		{"ObjectiveThroughput", 2, "tokens per second of the fleet"},
	}},
	{"Values of the column adapter_state.", []constant{
		{"AdapterNone", 0, "the request names no adapter"},
		{"AdapterLoaded", 1, "in the engine's memory"},
		{"AdapterKnown", 2, "the engine can load it"},
		{"AdapterUnknown", 3, "the host has not seen it there"},
	}},
	{"Limits of the experimental roles.", []constant{
		{"MaxScaleSamples", 60, "samples of kvasir_x_autoscale"},
		{"MaxScaleSize", 1024, "endpoints a pool or group may be wished"},
		{"MaxScaleReason", 256, "bytes of the reason for a size"},
	}},
	{"Argument of kvasir_x_autoscale (experimental): byte offsets from its base. Offsets in it are relative to the base and multiples of 64.", []constant{
		{"ScaleSize", 0, "u32 bytes of this header"},
		{"ScaleFlags", 4, "u32 flags of a batch: shadow, replay"},
		{"ScaleNPools", 8, "u32 pools of the group, the one to fill first comes first"},
		{"ScaleNNodes", 12, "u32 endpoints of all pools"},
		{"ScaleNSamples", 16, "u32 ticks of history, at most MaxScaleSamples"},
		{"ScaleNCols", 20, "u32 columns of a sample"},
		{"ScaleStride", 24, "u32 elements of 4 bytes from one column of samples to the next"},
		{"ScalePoolBytes", 28, "u32 bytes from one pool to the next; may grow"},
		{"ScaleNowMs", 32, "f64 Unix milliseconds, frozen for the call"},
		{"ScaleNodeBytes", 40, "u32 bytes from one endpoint to the next; may grow"},
		{"ScalePoolsOff", 44, "u32 offset of the pools"},
		{"ScaleNodesOff", 48, "u32 offset of the endpoints, pool by pool"},
		{"ScaleSamplesOff", 52, "u32 offset of the samples' columns, oldest first"},
		{"ScaleOutOff", 56, "u32 offset of the result"},
		{"ScaleOutBytes", 60, "u32 bytes of the result, with pools, victims and reason"},
		{"ScaleOutPoolsOff", 64, "u32 offset of the result's sizes of pools, [npools] u32"},
		{"ScaleOutVictimsOff", 68, "u32 offset of the result's victims, [nnodes] u32"},
		{"ScaleOutReasonOff", 72, "u32 offset of the result's reason, MaxScaleReason bytes"},
		{"ScaleNow", 76, "u32 endpoints that serve or were ordered"},
		{"ScaleDesired", 80, "u32 the built-in proposal"},
		{"ScaleWish", 84, "u32 of it: by work, lead and backlog alone"},
		{"ScaleWindow", 88, "u32 of it: greatest wish within the window"},
		{"ScaleReserved", 92, "u32 zero"},
		{"ScaleRate", 96, "f64 of it: smoothed offered work, endpoint-seconds per second"},
		{"ScaleLead", 104, "f64 of it: added for growth over a cold start, same unit"},
		{"ScaleAhead", 112, "f64 of it: endpoint-seconds that will have piled up when what is ordered now serves"},
		{"ScaleBacklog", 120, "f64 of it: endpoints added to work off the backlog"},
		{"ScaleColdMs", 128, "f64 of it: cold start reckoned with"},
		{"ScaleHeaderSize", 136, "size of the header of this minor version"},
	}},
	{"A pool of kvasir_x_autoscale: byte offsets from its begin.", []constant{
		{"ScalePoolMin", 0, "u32 endpoints at least"},
		{"ScalePoolMax", 4, "u32 endpoints at most"},
		{"ScalePoolReady", 8, "u32 endpoints that serve and do not drain"},
		{"ScalePoolPending", 12, "u32 endpoints that were ordered and do not serve yet"},
		{"ScalePoolDraining", 16, "u32 endpoints that are to go"},
		{"ScalePoolFailing", 20, "u32 endpoints that served and are away"},
		{"ScalePoolOutstanding", 24, "u32 requests in flight on its endpoints"},
		{"ScalePoolFlags", 28, "u32 ScalePoolSpot, ScalePoolBlocked"},
		{"ScalePoolPrice", 32, "f64 of an endpoint-second beside that of other pools, 0 = not set"},
		{"ScalePoolColdMs", 40, "f64 from order to readiness, measured or assumed"},
		{"ScalePoolNameOff", 48, "u32 offset of its name from the argument's base"},
		{"ScalePoolNameLen", 52, "u32 bytes of its name"},
		{"ScalePoolFirst", 56, "u32 first of its endpoints"},
		{"ScalePoolNodes", 60, "u32 its endpoints"},
		{"ScalePoolHeaderSize", 64, "bytes of a pool in this minor version"},
	}},
	{"Flags of a pool of kvasir_x_autoscale.", []constant{
		{"ScalePoolSpot", 1, "its endpoints may be taken away at any moment"},
		{"ScalePoolBlocked", 2, "the last order brought nothing: nothing is ordered there for a while"},
	}},
	{"An endpoint of kvasir_x_autoscale: byte offsets from its begin.", []constant{
		{"ScaleNodePool", 0, "u32 its pool"},
		{"ScaleNodeFlags", 4, "u32 ScaleNodeReady, ScaleNodeFailing"},
		{"ScaleNodeDrain", 8, "u32 0 serves, 1 takes no new sessions, 2 takes no new requests"},
		{"ScaleNodeInflight", 12, "u32 requests in flight"},
		{"ScaleNodeSessions", 16, "u32 sessions whose last request was there"},
		{"ScaleNodeNameOff", 20, "u32 offset of its name (the driver's, or its URL) from the argument's base"},
		{"ScaleNodeNameLen", 24, "u32 bytes of its name"},
		{"ScaleNodeReserved", 28, "u32 zero"},
		{"ScaleNodeHeat", 32, "f64 tokens read from its cache, fading"},
		{"ScaleNodeAgeMs", 40, "f64 since it is known"},
		{"ScaleNodeOldestMs", 48, "f64 age of its oldest request"},
		{"ScaleNodeHeaderSize", 56, "bytes of an endpoint in this minor version"},
	}},
	{"Flags of an endpoint of kvasir_x_autoscale.", []constant{
		{"ScaleNodeReady", 1, "it answers"},
		{"ScaleNodeFailing", 2, "it served and has been away for long"},
	}},
	{"Columns of the samples of kvasir_x_autoscale, f32.", []constant{
		{"ScaleSampleAgeMs", 0, "before now_ms"},
		{"ScaleSampleRate", 1, "smoothed offered work, endpoint-seconds per second"},
		{"ScaleSampleBacklog", 2, "accepted work that is not done, endpoint-seconds"},
		{"ScaleSampleQueueMs", 3, "age of the oldest request that waited"},
		{"ScaleSampleInflight", 4, "requests that were not done"},
		{"ScaleSampleKVUsage", 5, "mean share of KV memory in use by requests"},
		{"ScaleSampleReady", 6, "endpoints that served"},
		{"ScaleSamplePending", 7, "endpoints that were ordered"},
		{"ScaleSampleDesired", 8, "the built-in proposal"},
		{"NumScaleSamples", 9, "columns of this minor version; more may follow"},
	}},
	{"Result of kvasir_x_autoscale: byte offsets from out_off.", []constant{
		{"ScaleOutDesired", 0, "u32 endpoints of the group, at most MaxScaleSize; arrives as Unwritten"},
		{"ScaleOutNVictims", 4, "u32 victims written; arrives as 0"},
		{"ScaleOutHoldMs", 8, "f64 no change of size for so long; arrives as 0"},
		{"ScaleOutTTLMs", 16, "f64 the result stands so long while later calls abstain; arrives as 0"},
		{"ScaleOutReasonLen", 24, "u32 bytes of the reason written; arrives as 0"},
		{"ScaleOutReserved", 28, "u32 zero"},
		{"ScaleOutHeaderSize", 32, "bytes of the result before pools, victims and reason"},
	}},
	{"What host calls and memory cost in units of fuel.", []constant{
		{"FuelHostCall", 50, "one call of an imported function"},
		{"FuelHostBytes", 16, "bytes read or written by an imported function for one unit"},
		{"FuelCall", 16, "entry of a function, beside its instructions"},
		{"FuelPage", 16384, "one page of memory.grow"},
		{"FuelBulkBytes", 16, "bytes of memory.copy, fill or init for one unit"},
	}},
}

// text is a name with a value that is a string.
type text struct{ name, value, doc string }

var exports = []text{
	{"ExportMemory", "memory", "the linear memory"},
	{"ExportABI", "kvasir_abi", "() -> i32: major<<16 | minor"},
	{"ExportManifest", "kvasir_manifest", "() -> i64: ptr<<32 | len of static UTF-8 JSON"},
	{"ExportAlloc", "kvasir_alloc", "(i32 size) -> i32: the one arena, 16-aligned, valid until the next call; 0 = out of memory"},
	{"ExportError", "kvasir_error", "() -> i64: ptr<<32 | len of the text of the last status ≥ 2; optional"},
	{"ExportInitialize", "_initialize", "() -> (): run once per instance before anything else; optional"},
	{"ExportStart", "_start", "refused: a plugin is a reactor, not a command"},
	{"ExportFilter", "kvasir_filter", "candidates → u32 each: 0 keep, 1…65535 drop"},
	{"ExportScore", "kvasir_score", "candidates → f32 each, higher is better"},
	{"ExportPick", "kvasir_pick", "candidates and scores → order per slot"},
	{"ExportObserve", "kvasir_observe", "outcomes → published columns"},
	{"ExportConfigure", "kvasir_configure", "JSON config, once per instance"},
	{"ExportIdle", "kvasir_idle", "maintenance off the request path"},
	{"ExportAdmit", "kvasir_x_admit", "experimental"},
	{"ExportAutoscale", "kvasir_x_autoscale", "the fleet of a group of pools → its size; experimental"},
	{"ExportBackendParse", "kvasir_x_backend_parse", "experimental"},
	{"ExportDiscover", "kvasir_x_discover", "experimental"},
}

var modules = []text{
	{"ModuleLog", "kvasir:log/1", "log(i32 level, i32 ptr, i32 len): 0 debug, 1 info, 2 warn, 3 error; rate-limited"},
	{"ModuleKV", "kvasir:kv/1", "get(i32 key, i32 klen, i32 val, i32 cap) -> i32 length or -1; set(i32 key, i32 klen, i32 val, i32 vlen) -> i32 0 or 1 over quota; delete(i32 key, i32 klen) -> i32 0 or 1 absent; observe, idle and experimental roles only"},
	{"ModuleMetrics", "kvasir:metrics/1", "add(i32 name, i32 len, f64 delta); set(i32 name, i32 len, f64 value)"},
	{"ModuleWASI", "wasi_snapshot_preview1", "the ten functions Go guests import; always granted, no files, no sockets, clock frozen at now_ms, seeded random"},
}

var units = []text{
	{"UnitCostTokens", "cost_tokens", "minus the cost in prefill tokens of a mean endpoint"},
	{"UnitPlain", "unit", "dimensionless"},
}
