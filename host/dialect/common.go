package dialect

// Common are the fields of the OpenAI and the Anthropic API, which every dialect
// has but those it Lacks. Sources: the API references of both, as of 2026-10.
var Common = []Members{
	{Chat | Completions | Tokenize | Responses | Messages | Count, "model"},
	{Chat | Completions | Responses | Messages, "stream temperature top_p"},
	{Chat | Completions | Responses, "stream_options user frequency_penalty logit_bias presence_penalty seed stop"},
	{Chat | Completions | Messages, "max_tokens"},
	{Chat | Completions, "n echo logprobs response_format"},
	{Chat | Responses | Messages, "metadata service_tier"},
	{Chat | Responses, "top_logprobs store parallel_tool_calls prompt_cache_key prompt_cache_retention"},
	{Chat | Responses, "safety_identifier verbosity"},
	{Chat, "max_completion_tokens reasoning_effort audio function_call functions modalities prediction"},
	{Chat, "web_search_options"},
	{Chat | Tokenize | Messages | Count, "messages"},
	{Chat | Tokenize | Responses | Messages | Count, "tools"},
	{Chat | Responses | Messages | Count, "tool_choice"},
	{Completions | Tokenize | Responses, "prompt"},
	{Completions, "suffix best_of"},
	{Responses, "max_output_tokens previous_response_id background conversation input instructions reasoning"},
	{Responses, "truncation include max_tool_calls text"},
	{Messages | Count, "system thinking output_config cache_control context_management mcp_servers"},
	{Messages, "container stop_sequences inference_geo"},
}

// InternalElsewhere are internal fields of engines and gateways without a dialect
// of their own. They may stand behind any endpoint.
var InternalElsewhere = []string{
	"nvext", "extra_body", // a gateway's containers of worker ids and priorities
	// TensorRT-LLM serve/openai_protocol.py
	"conversation_params", "disaggregated_params", "lora_request", "prompt_token_ids",
}
