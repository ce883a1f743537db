package hostmod

import (
	"log/slog"

	"github.com/kvasir-router/kvasir/host/wasm"
)

// Alone returns all modules for a runtime that serves nobody: what a plugin
// logs is dropped, its store is empty and its metrics are not read.
func Alone() []*wasm.HostModule {
	return []*wasm.HostModule{Log(slog.New(slog.DiscardHandler)), KV(NewSpaces(0)), NewMetrics().Module()}
}
