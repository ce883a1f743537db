package plugins

import (
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/backend"
)

// TestFigureIDs: a figure has one number, in the ABI and among engines.
func TestFigureIDs(t *testing.T) {
	for id, want := range map[backend.FigureID]uint32{
		backend.FigureRunning: abi.FigureRunning, backend.FigureWaiting: abi.FigureWaiting, backend.FigureKVUsage: abi.FigureKVUsage, backend.FigureBlockTokens: abi.FigureBlockTokens,
		backend.FigureCacheBlocks: abi.FigureCacheBlocks, backend.FigureCacheQueries: abi.FigureCacheQueries, backend.FigureCacheHits: abi.FigureCacheHits, backend.FigurePromptTokens: abi.FigurePromptTokens,
		backend.FigureOutputTokens: abi.FigureOutputTokens, backend.FigureRequests: abi.FigureRequests, backend.FigureStartTime: abi.FigureStartTime, backend.FigureSleeping: abi.FigureSleeping,
		backend.FigureAborted: abi.FigureAborted, backend.FigureCacheTokens: abi.FigureCacheTokens,
	} {
		if uint32(id) != want {
			t.Errorf("figure %d is %d in the ABI", id, want)
		}
	}
}
