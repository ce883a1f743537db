package llmapi

// Priority is how an engine is told which of its waiting requests goes first.
// Rewrite.Priority counts upwards (higher = sooner), whatever the engine does.

// priorityOf returns the member that an engine of this dialect reads a
// request's priority from, "" if it has none, and the engine's value for ours.
//
// vLLM 0.32 entrypoints/openai/{chat_completion,completion,responses}/protocol.py:
// "lower means earlier handling"; without the priority scheduler it does nothing.
// The header X-Vllm-Priority, which would go before it, is never passed on.
// SGLang srt/entrypoints/openai/protocol.py and srt/managers/schedule_policy.py:
// higher goes first unless the engine was started with
// --schedule-low-priority-values-first.
func priorityOf(op Operation, d dialects, priority int) (name string, value int) {
	switch {
	case d&dVLLM != 0 && op.set()&opCTR != 0:
		return "priority", -priority
	case d&dSGLang != 0 && op.set()&opCT != 0:
		return "priority", priority
	}
	return "", 0
}
