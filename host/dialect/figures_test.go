package dialect

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"
)

func TestMetricsOf(t *testing.T) {
	m, err := MetricsOf([]Figure{{FigureRunning, 2}, {FigureWaiting, 3}, {FigureKVUsage, 1.5}, {FigureBlockTokens, 32},
		{FigureCacheBlocks, 1e17}, {FigureCacheQueries, 10}, {FigureCacheHits, 4},
		{FigurePromptTokens, 5}, {FigureOutputTokens, 6}, {FigureRequests, 7}, {FigureStartTime, 8}, {FigureSleeping, 1},
		{FigureAborted, 9}, {FigureCacheTokens, 11}, {99, 1}})
	want := Metrics{Running: 2, Waiting: 3, KVUsage: 1, BlockTokens: 32, CacheBlocks: 1 << 40, CacheTokens: 11,
		Sleeping: true, StartTime: 8, Requests: 7, Aborted: 9, PromptTokens: 5, OutputTokens: 6,
		CacheQueries: 10, CacheHits: 4, HasCache: true, HasLoad: true}
	if m.reported = 0; err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, m, want)
	}
	if m, _ := MetricsOf([]Figure{{FigureCacheHits, 4}}); m.HasCache {
		t.Error("hits without queries are a cache")
	}
	for _, bad := range []Figure{{FigureRunning, math.NaN()}, {FigureRunning, math.Inf(1)}, {FigureWaiting, -1},
		{FigureRequests, 1e18}, {FigureBlockTokens, 1025}} {
		if m, err := MetricsOf([]Figure{bad}); err == nil {
			t.Errorf("%v: %+v", bad, m)
		}
	}
	// A fall of a counter, or another start, is another process.
	a, _ := MetricsOf([]Figure{{FigurePromptTokens, 5}})
	b, _ := MetricsOf([]Figure{{FigurePromptTokens, 4}})
	if Restarted(&a, &b) == "" || Restarted(&b, &a) != "" {
		t.Error("a fallen counter is no restart, or a risen one is")
	}
}

// FuzzMetricsOf: figures within their range make metrics within theirs.
func FuzzMetricsOf(f *testing.F) {
	f.Add(make([]byte, 24))
	f.Fuzz(func(t *testing.T, b []byte) {
		var figures []Figure
		for ; len(b) >= 9; b = b[9:] {
			figures = append(figures, Figure{FigureID(b[0] % 20), math.Float64frombits(binary.LittleEndian.Uint64(b[1:]))})
		}
		m, err := MetricsOf(figures)
		if err == nil && !(m.Running >= 0 && m.Waiting >= 0 && m.KVUsage >= 0 && m.KVUsage <= 1 && m.BlockTokens >= 0 &&
			m.BlockTokens <= 1024 && m.CacheBlocks >= 0 && m.CacheBlocks <= 1<<40 && m.CacheTokens >= 0) {
			t.Errorf("%+v", m)
		}
	})
}
