package plugins

import (
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// TestColumns_operation: each operation with a prompt has a number of its own.
func TestColumns_operation(t *testing.T) {
	for op, want := range map[llmapi.Operation]uint64{
		llmapi.OpChat: abi.OperationChat, llmapi.OpCompletions: abi.OperationCompletions,
		llmapi.OpResponses: abi.OperationResponses,
		llmapi.OpMessages:  abi.OperationMessages, llmapi.OpTokenize: abi.OperationOther,
	} {
		if got := op.ABI(); got != want {
			t.Errorf("operation %v is shown as %d, want %d", op, got, want)
		}
	}
}
