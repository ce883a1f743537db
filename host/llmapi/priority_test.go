package llmapi

import "testing"

// TestAppendEdits_priority: the client's priority never passes; ours goes in the
// field and the direction of the engine, where it has one.
func TestAppendEdits_priority(t *testing.T) {
	f := func(op Operation, dialect string, priority int, body, want string) {
		t.Helper()
		if got := edited(t, op, body, Rewrite{Priority: priority, Dialect: dialect}); got != want {
			t.Errorf("%v %s %d %s: got  %s, want %s", op, dialect, priority, body, got, want)
		}
	}
	for _, op := range []Operation{OpChat, OpCompletions, OpResponses} {
		f(op, "vllm", 5, `{"model":"a"}`, `{"model":"a","priority":-5}`)
		f(op, "", -3, `{"priority" : 99, "model":"a"}`, `{"priority" : 3, "model":"a"}`)
		f(op, "vllm", 5, `{"pr\u0069ority":null}`, `{"pr\u0069ority":-5}`)
		f(op, "vllm", 0, `{"model":"a","priority":-9}`, `{"model":"a"}`)
		f(op, "openai", 5, `{"model":"a","priority":-9}`, `{"model":"a"}`)
	}
	f(OpChat, "sglang", 5, `{"priority":-99}`, `{"priority":5}`)
	f(OpChat, "sglang", 5, `{}`, `{"priority":5}`)
	f(OpChat, "esperanto", 5, `{"priority":1}`, `{}`)
	f(OpMessages, "vllm", 5, `{"model":"a","priority":1}`, `{"model":"a"}`)
	f(OpCountTokens, "vllm", 5, `{"model":"a"}`, `{"model":"a"}`)
	f(OpTokenize, "vllm", 5, `{"model":"a"}`, `{"model":"a"}`)
}
