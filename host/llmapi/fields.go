package llmapi

// Class says what the router does with a top-level member.
type Class uint8

const (
	ClassUnknown  Class = iota // not in the table: goes by Rewrite.UnknownFields
	ClassKnown                 // part of some engine's API: passes
	ClassActed                 // read or edited by the router
	ClassInternal              // steers routing, cache or code inside the engine: never passes
)

// Fields is a set of groups of fields, one bit each. An operation has the fields
// of its groups (Spec.Fields).
type Fields uint8

// dialects is a set, one bit each.
type dialects uint8

// The groups.
const (
	FieldsChat        Fields = 1 << iota // chat.completions
	FieldsCompletions                    // completions
	FieldsTokenize                       // tokenize
	FieldsResponses                      // responses
	FieldsMessages                       // messages
	FieldsCount                          // count of a message's tokens
)

// Short names of the groups and of sets of them, for the table.
const (
	opC    = FieldsChat
	opT    = FieldsCompletions
	opK    = FieldsTokenize
	opR    = FieldsResponses
	opM    = FieldsMessages
	opN    = FieldsCount
	opCT   = opC | opT
	opCK   = opC | opK
	opCTK  = opC | opT | opK
	opCR   = opC | opR
	opRM   = opR | opM
	opMN   = opM | opN
	opCTR  = opC | opT | opR
	opCRM  = opC | opR | opM
	opGen  = opC | opT | opR | opM // those that compute a prompt
	noneOp = Fields(0)
)

const (
	dOpenAI dialects = 1 << iota
	dVLLM
	dSGLang
	dTRT
	dLlama
	dOllama
	dAny  = dOpenAI | dVLLM | dSGLang | dTRT | dLlama | dOllama
	dBig  = dVLLM | dSGLang | dTRT
	dOwn  = dBig | dLlama
	dNone = dialects(0)
)

// set returns the groups of fields that the operation has.
func (o Operation) set() Fields { return o.spec().Fields }

// dialectSet maps a dialect's name to its bit. "" is vllm, the default of a
// pool; an unknown name gets what every OpenAI server takes and no more.
func dialectSet(name string) dialects {
	switch name {
	case "", "vllm":
		return dVLLM
	case "sglang":
		return dSGLang
	case "trtllm":
		return dTRT
	case "llamacpp":
		return dLlama
	case "ollama":
		return dOllama
	}
	return dOpenAI
}

// SaltField returns the member an engine of this dialect reads the cache salt
// from, "" if it has none or the operation touches no cache. It tells of releases
// of today; whether an older one reads the member is the backend's to know
// (backend.Capabilities). Sources: vLLM 0.32 entrypoints/openai/responses/protocol.py
// (ResponsesRequest.cache_salt, put into the engine's input by
// renderers/online_renderer.py, preprocess_chat) and entrypoints/anthropic
// (AnthropicMessagesRequest.cache_salt, handed to the chat request by
// _build_base_request). The other dialects are known for chat and completions.
func SaltField(op Operation, dialect string) string {
	d := dialectSet(dialect)
	if op.set()&opCT != 0 && d&dBig != 0 || op.set()&opRM != 0 && d&dVLLM != 0 {
		return "cache_salt"
	}
	return ""
}

// field is one key of the table. Its id is its index.
type field struct {
	name     string
	class    Class
	ops      Fields   // groups that have it
	dialects dialects // dialects that have it
}

// ids of the fields that code refers to; the first of the table, in order.
const (
	fModel = iota
	fStream
	fStreamOptions
	fMaxTokens
	fMaxCompletionTokens
	fNPredict
	fPrompt
	fMessages
	fN
	fUser
	fEcho
	fLogprobs
	fTopLogprobs
	fPromptLogprobs
	fCacheSalt
	fTemplateKwargs
	fMaxOutputTokens
	fPreviousResponse
	fBackground
	fStore
	fConversation
	fContainer
	fPriority
	fInput
	nActed

	fNone = -1
)

// fields is the allow-list. Sources: the OpenAI API reference; vLLM 0.32
// entrypoints/openai/{chat_completion,completion,responses}/protocol.py,
// entrypoints/anthropic/protocol.py and entrypoints/serve/tokenize/protocol.py;
// the Anthropic API reference (messages, count_tokens); SGLang
// srt/entrypoints/openai/protocol.py; TensorRT-LLM serve/openai_protocol.py;
// llama.cpp tools/server/README.md; Ollama docs/openai.md.
var fields = []field{
	fModel:               {"model", ClassActed, opCTK | opRM | opN, dAny},
	fStream:              {"stream", ClassActed, opGen, dAny},
	fStreamOptions:       {"stream_options", ClassActed, opCTR, dAny},
	fMaxTokens:           {"max_tokens", ClassActed, opCT | opM, dAny},
	fMaxCompletionTokens: {"max_completion_tokens", ClassActed, opC, dAny &^ dOllama},
	fNPredict:            {"n_predict", ClassActed, opCT, dLlama},
	fPrompt:              {"prompt", ClassActed, opT | opK | opR, dAny},
	fMessages:            {"messages", ClassActed, opCK | opMN, dAny},
	fN:                   {"n", ClassActed, opCT, dAny},
	fUser:                {"user", ClassActed, opCTR, dAny},
	fEcho:                {"echo", ClassActed, opCT, dAny},
	fLogprobs:            {"logprobs", ClassActed, opCT, dAny},
	fTopLogprobs:         {"top_logprobs", ClassActed, opCR, dAny},
	fPromptLogprobs:      {"prompt_logprobs", ClassActed, opCT, dBig},
	fCacheSalt:           {"cache_salt", ClassInternal, opGen, dBig},
	fTemplateKwargs:      {"chat_template_kwargs", ClassActed, opCK | opRM | opN, dOwn},
	fMaxOutputTokens:     {"max_output_tokens", ClassActed, opR, dAny},
	fPreviousResponse:    {"previous_response_id", ClassActed, opR, dAny},
	fBackground:          {"background", ClassActed, opR, dAny},
	fStore:               {"store", ClassActed, opCR, dAny},
	fConversation:        {"conversation", ClassActed, opR, dAny},
	fContainer:           {"container", ClassActed, opM, dAny},
	fPriority:            {"priority", ClassInternal, opGen, dBig},
	fInput:               {"input", ClassActed, opR, dAny},

	// What shapes the prompt beside the above: read by the tokenizer.
	nActed: {"tools", ClassActed, opCK | opR | opMN, dAny},
	{"tool_choice", ClassActed, opCR | opMN, dAny},
	{"documents", ClassActed, opC, dOwn},
	{"response_format", ClassActed, opCT, dAny},
	{"reasoning_effort", ClassActed, opC, dAny},
	{"add_generation_prompt", ClassActed, opCK, dOwn},
	{"continue_final_message", ClassActed, opCK, dOwn},
	{"add_special_tokens", ClassActed, opCTK, dOwn},
	{"truncate_prompt_tokens", ClassActed, opCTK, dBig},
	{"truncation_side", ClassActed, opCTK, dVLLM},
	{"mm_processor_kwargs", ClassActed, opCTK | opR, dBig},
	{"media_io_kwargs", ClassActed, opCK | opR, dVLLM},
	{"prompt_embeds", ClassActed, opT, dVLLM},
	{"instructions", ClassActed, opR, dAny},
	{"reasoning", ClassActed, opR, dAny},
	{"truncation", ClassActed, opR, dAny},
	{"previous_input_messages", ClassActed, opR, dVLLM},
	{"system", ClassActed, opMN, dAny},
	{"thinking", ClassActed, opMN, dAny},
	{"output_config", ClassActed, opMN, dAny},
	{"suffix", ClassActed, opT, dAny},

	// OpenAI's own.
	{"audio", ClassKnown, opC, dAny},
	{"best_of", ClassKnown, opT, dAny},
	{"frequency_penalty", ClassKnown, opCTR, dAny},
	{"function_call", ClassKnown, opC, dAny},
	{"functions", ClassKnown, opC, dAny},
	{"logit_bias", ClassKnown, opCTR, dAny},
	{"metadata", ClassKnown, opCRM, dAny},
	{"modalities", ClassKnown, opC, dAny},
	{"parallel_tool_calls", ClassKnown, opCR, dAny},
	{"prediction", ClassKnown, opC, dAny},
	{"presence_penalty", ClassKnown, opCTR, dAny},
	{"prompt_cache_key", ClassKnown, opCR, dAny},
	{"prompt_cache_retention", ClassKnown, opCR, dAny},
	{"safety_identifier", ClassKnown, opCR, dAny},
	{"seed", ClassKnown, opCTR, dAny},
	{"service_tier", ClassKnown, opCRM, dAny},
	{"stop", ClassKnown, opCTR, dAny},
	{"temperature", ClassKnown, opGen, dAny},
	{"top_p", ClassKnown, opGen, dAny},
	{"verbosity", ClassKnown, opCR, dAny},
	{"web_search_options", ClassKnown, opC, dAny},

	{"include", ClassKnown, opR, dAny},
	{"max_tool_calls", ClassKnown, opR, dAny},
	{"text", ClassKnown, opR, dAny},

	// Anthropic's own.
	{"stop_sequences", ClassKnown, opM, dAny},
	{"cache_control", ClassKnown, opMN, dAny},
	{"context_management", ClassKnown, opMN, dAny},
	{"mcp_servers", ClassKnown, opMN, dAny},
	{"inference_geo", ClassKnown, opM, dAny},

	// Sampling and output of the engines.
	{"top_k", ClassKnown, opGen, dOwn},
	{"min_p", ClassKnown, opCTR, dOwn},
	{"repetition_penalty", ClassKnown, opCTR, dBig},
	{"length_penalty", ClassKnown, opCT, dVLLM | dTRT},
	{"early_stopping", ClassKnown, opCT, dVLLM | dTRT},
	{"use_beam_search", ClassKnown, opCT, dVLLM | dTRT},
	{"stop_token_ids", ClassKnown, opCTR, dBig},
	{"include_stop_str_in_output", ClassKnown, opCTR, dVLLM | dTRT},
	{"ignore_eos", ClassKnown, opCTR, dOwn},
	{"min_tokens", ClassKnown, opCT, dBig},
	{"skip_special_tokens", ClassKnown, opCTR, dBig},
	{"spaces_between_special_tokens", ClassKnown, opCT, dBig},
	{"allowed_token_ids", ClassKnown, opCT, dVLLM},
	{"bad_words", ClassKnown, opCT, dVLLM},
	{"structured_outputs", ClassKnown, opCTR, dVLLM},
	{"guided_json", ClassKnown, opCT, dVLLM},
	{"guided_regex", ClassKnown, opCT, dVLLM},
	{"guided_choice", ClassKnown, opCT, dVLLM},
	{"guided_grammar", ClassKnown, opCT, dVLLM},
	{"guided_decoding_backend", ClassKnown, opCT, dVLLM},
	{"guided_whitespace_pattern", ClassKnown, opCT, dVLLM},
	{"include_reasoning", ClassKnown, opCR, dVLLM},
	{"thinking_token_budget", ClassKnown, opC, dVLLM},
	{"repetition_detection", ClassKnown, opCT, dVLLM},
	{"return_tokens_as_token_ids", ClassKnown, opCT, dVLLM},
	{"return_token_ids", ClassKnown, opCT, dVLLM},
	{"return_token_offsets", ClassKnown, opCT, dVLLM},
	{"return_prompt_text", ClassKnown, opCT, dVLLM},
	{"return_token_strs", ClassKnown, opK, dVLLM},
	{"watermarking", ClassKnown, opGen, dVLLM},
	{"enable_response_messages", ClassKnown, opR, dVLLM},
	{"regex", ClassKnown, opCT, dSGLang},
	{"ebnf", ClassKnown, opCT, dSGLang},
	{"json_schema", ClassKnown, opCT, dSGLang | dLlama},
	{"no_stop_trim", ClassKnown, opCT, dSGLang},
	{"stop_regex", ClassKnown, opCT, dSGLang},
	{"separate_reasoning", ClassKnown, opC, dSGLang},
	{"stream_reasoning", ClassKnown, opC, dSGLang},
	{"custom_params", ClassKnown, opCT, dSGLang},
	{"return_hidden_states", ClassKnown, opCT, dSGLang},
	{"detokenize", ClassKnown, opCT, dTRT},
	{"top_p_min", ClassKnown, opCT, dTRT},
	{"return_context_logits", ClassKnown, opCT, dTRT},
	{"grammar", ClassKnown, opCT, dLlama},
	{"typical_p", ClassKnown, opCT, dLlama},
	{"dynatemp_range", ClassKnown, opCT, dLlama},
	{"dynatemp_exponent", ClassKnown, opCT, dLlama},
	{"xtc_probability", ClassKnown, opCT, dLlama},
	{"xtc_threshold", ClassKnown, opCT, dLlama},
	{"repeat_penalty", ClassKnown, opCT, dLlama},
	{"repeat_last_n", ClassKnown, opCT, dLlama},
	{"dry_multiplier", ClassKnown, opCT, dLlama},
	{"dry_base", ClassKnown, opCT, dLlama},
	{"dry_allowed_length", ClassKnown, opCT, dLlama},
	{"dry_penalty_last_n", ClassKnown, opCT, dLlama},
	{"dry_sequence_breakers", ClassKnown, opCT, dLlama},
	{"mirostat", ClassKnown, opCT, dLlama},
	{"mirostat_tau", ClassKnown, opCT, dLlama},
	{"mirostat_eta", ClassKnown, opCT, dLlama},
	{"samplers", ClassKnown, opCT, dLlama},
	{"min_keep", ClassKnown, opCT, dLlama},
	{"n_probs", ClassKnown, opCT, dLlama},
	{"t_max_predict_ms", ClassKnown, opCT, dLlama},
	{"timings_per_token", ClassKnown, opCT, dLlama},
	{"return_progress", ClassKnown, opCT, dLlama},
	{"post_sampling_probs", ClassKnown, opCT, dLlama},
	{"reasoning_format", ClassKnown, opC, dLlama},
	{"parse_tool_calls", ClassKnown, opC, dLlama},
	{"content", ClassActed, opK, dLlama},
	{"add_special", ClassActed, opK, dLlama},
	{"parse_special", ClassActed, opK, dLlama},
	{"with_pieces", ClassKnown, opK, dLlama},

	// Never from a client, whatever the dialect. Cache and its isolation:
	{"extra_key", ClassInternal, opGen, dSGLang},
	{"cache_prompt", ClassInternal, opCT, dLlama},
	{"id_slot", ClassInternal, opCT, dLlama},
	{"slot_id", ClassInternal, opCT, dLlama},
	{"n_cache_reuse", ClassInternal, opCT, dLlama},
	{"n_keep", ClassInternal, opCT, dLlama},
	{"return_cached_tokens_details", ClassInternal, opCT, dSGLang}, // tells overlap in a field masking does not reach
	{"kv_transfer_params", ClassInternal, opGen, dVLLM},
	{"ec_transfer_params", ClassInternal, opGen, dVLLM},
	{"keep_alive", ClassInternal, opGen, dOllama},
	// routing and identity inside the engine:
	{"routed_dp_rank", ClassInternal, opGen, dSGLang},
	{"data_parallel_rank", ClassInternal, opGen, dBig},
	{"request_id", ClassInternal, opGen, dVLLM},
	{"rid", ClassInternal, opGen, dSGLang},
	{"session_id", ClassInternal, opGen, dBig},
	{"session_params", ClassInternal, opGen, dSGLang},
	{"conversation_params", ClassInternal, opGen, dTRT},
	{"disaggregated_params", ClassInternal, opGen, dTRT},
	{"nvext", ClassInternal, opGen, dNone}, // a gateway's container of worker ids and priorities
	{"extra_body", ClassInternal, opGen, dNone},
	// another model than the one decided:
	{"lora", ClassInternal, opCT, dLlama},
	{"lora_path", ClassInternal, opGen, dSGLang},
	{"lora_request", ClassInternal, opCT, dTRT},
	// another prompt than the one rendered, code and open-ended containers:
	{"chat_template", ClassInternal, opCK, dOwn},
	{"prompt_token_ids", ClassInternal, opC, dTRT},
	{"input_ids", ClassInternal, opC, dSGLang},
	{"logits_processors", ClassInternal, opCT, dVLLM},
	{"custom_logit_processor", ClassInternal, opCT, dSGLang},
	{"vllm_xargs", ClassInternal, opGen, dVLLM},
}

// internalPrefixes are families of internal keys.
var internalPrefixes = []string{"bootstrap_", "disagg_"}

// streamOptions are the members of stream_options that pass.
var streamOptions = map[string]bool{"include_usage": true, "continuous_usage_stats": true, "include_obfuscation": true}

// templateDenied are members of chat_template_kwargs that replace the template
// or the way it is applied (CVE-2025-62426), not variables of it.
var templateDenied = map[string]bool{"chat_template": true, "tokenize": true}

var fieldByName = func() map[string]int16 {
	m := make(map[string]int16, len(fields))
	for i, f := range fields {
		if _, twice := m[f.name]; twice {
			panic("BUG: llmapi: field " + f.name + " is twice in the table")
		}
		m[f.name] = int16(i)
	}
	return m
}()

// maxFieldName is longer than any name of the table, however it is folded: a
// fold has at most three bytes for one (U+212A).
const maxFieldName = 3 * 40

// lookup finds a decoded key. variant is true if the key is not the field's
// name but differs from it in case only, as encoding/json compares (ASCII, and
// the two letters outside of it that fold into it). A member of an internal
// family has id fNone and class ClassInternal.
func lookup(name string) (id int, class Class, variant bool) {
	if i, ok := fieldByName[name]; ok {
		return int(i), fields[i].class, false
	}
	if len(name) > maxFieldName {
		return fNone, ClassUnknown, false
	}
	var buf [maxFieldName]byte
	folded := fold(buf[:0], name)
	variant = len(folded) != len(name) || string(folded) != name
	if variant {
		if i, ok := fieldByName[string(folded)]; ok {
			return int(i), fields[i].class, true
		}
	}
	for _, p := range internalPrefixes {
		if len(folded) > len(p) && string(folded[:len(p)]) == p {
			return fNone, ClassInternal, variant
		}
	}
	return fNone, ClassUnknown, false
}

// fold appends name in lower case.
func fold(dst []byte, name string) []byte {
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c-'A' <= 'Z'-'A':
			dst = append(dst, c|0x20)
		case c == 0xc5 && i+1 < len(name) && name[i+1] == 0xbf: // U+017F long s
			dst = append(dst, 's')
			i++
		case c == 0xe2 && i+2 < len(name) && name[i+1] == 0x84 && name[i+2] == 0xaa: // U+212A Kelvin sign
			dst = append(dst, 'k')
			i += 2
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
