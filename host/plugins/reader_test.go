package plugins

import (
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/dialect"
)

// TestFigureIDs: a figure has one number, in the ABI and among engines.
func TestFigureIDs(t *testing.T) {
	for id, want := range map[dialect.FigureID]uint32{
		dialect.FigureRunning: abi.FigureRunning, dialect.FigureWaiting: abi.FigureWaiting,
		dialect.FigureKVUsage: abi.FigureKVUsage, dialect.FigureBlockTokens: abi.FigureBlockTokens,
		dialect.FigureCacheBlocks: abi.FigureCacheBlocks, dialect.FigureCacheQueries: abi.FigureCacheQueries,
		dialect.FigureCacheHits: abi.FigureCacheHits, dialect.FigurePromptTokens: abi.FigurePromptTokens,
		dialect.FigureOutputTokens: abi.FigureOutputTokens, dialect.FigureRequests: abi.FigureRequests,
		dialect.FigureStartTime: abi.FigureStartTime, dialect.FigureSleeping: abi.FigureSleeping,
		dialect.FigureAborted: abi.FigureAborted, dialect.FigureCacheTokens: abi.FigureCacheTokens,
	} {
		if uint32(id) != want {
			t.Errorf("figure %d is %d in the ABI", id, want)
		}
	}
}
