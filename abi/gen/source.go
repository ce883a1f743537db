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
	{"ExportAutoscale", "kvasir_x_autoscale", "experimental"},
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
