package host

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/config"
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

// TestWithin: what is outside the allow-list is left out and named, a bounded
// number of it.
func TestWithin(t *testing.T) {
	d := &config.Discover{Allow: []string{"10.0.0.0/8", "*.gpu.example"}}
	in, err := within(d, []string{"http://10.1.2.3:1", "http://169.254.169.254:80", "http://a.gpu.example:1", "http://gpu.example:1", "http://10.1.2.3.evil.example:1"})
	if !slices.Equal(in, []string{"http://10.1.2.3:1", "http://a.gpu.example:1"}) || err == nil || !strings.Contains(err.Error(), "3 endpoints are not in discover.allow: http://169.254.169.254:80 ") {
		t.Errorf("%q, %v", in, err)
	}
	if in, err = within(d, slices.Repeat([]string{"http://h:1"}, 500)); in != nil || len(err.Error()) > 200 {
		t.Errorf("%q, %v", in, err)
	}
	if in, err = within(&config.Discover{}, []string{"http://h:1"}); len(in) != 1 || err != nil {
		t.Errorf("without a list: %q, %v", in, err)
	}
}
