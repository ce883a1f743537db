package backend

import (
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// TestUnsalted: a release is believed to keep salts apart from where it was seen
// to, operation by operation.
func TestUnsalted(t *testing.T) {
	messages := llmapi.Operations(1 << llmapi.OpMessages)
	for version, want := range map[string]llmapi.Operations{
		"0.9.2": llmapi.Prompts, "0.10.1.1": llmapi.Prompts, "0.11.0": messages, "0.31.2": messages, "0.32.0": 0, "0.32.1rc1": 0, "1.0.0": 0,
		"0.1.dev1+g1234": 0, "": 0,
	} {
		if got := unsalted(version); got != want {
			t.Errorf("%q: got %b, want %b", version, got, want)
		}
	}
	for op := range llmapi.OpCountTokens + 1 {
		if llmapi.Prompts.Has(op) != (llmapi.SaltField(op, "vllm") != "") || op.HasPrompt() != llmapi.Prompts.Has(op) {
			t.Errorf("%d: a prompt without a salt, or the other way round", op)
		}
	}
}
