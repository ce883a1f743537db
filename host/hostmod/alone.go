package hostmod

import (
	"log/slog"

	"github.com/kvasir-router/kvasir/host/wasm"
)

// Alone returns all modules for a runtime that serves no requests: logs are dropped,
// the store is empty and metrics are not read.
func Alone() []*wasm.HostModule {
	return []*wasm.HostModule{Log(slog.New(slog.DiscardHandler)), KV(NewSpaces(0)), NewMetrics().Module()}
}
