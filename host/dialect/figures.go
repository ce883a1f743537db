package dialect

import "fmt"

// Figure is one figure; values are finite and at least 0.
type Figure struct {
	ID    FigureID
	Value float64
}

// FigureID numbers the figures as the plugin ABI does (abi.Figure…).
type FigureID uint32

const (
	FigureRunning FigureID = iota + 1
	FigureWaiting
	FigureKVUsage
	FigureBlockTokens
	FigureCacheBlocks
	FigureCacheQueries
	FigureCacheHits
	FigurePromptTokens
	FigureOutputTokens
	FigureRequests
	FigureStartTime
	FigureSleeping
	FigureAborted
	FigureCacheTokens
)

// largest bounds figures that are sizes.
const largest = 1 << 40

// MetricsOf returns the metrics that figures make up; figures with unknown numbers
// are ignored. It fails for values that cannot be.
func MetricsOf(figures []Figure) (m Metrics, err error) {
	for _, f := range figures {
		v := f.Value
		if !(v >= 0 && v < 1e18) {
			return Metrics{}, fmt.Errorf("dialect: figure %d is %v", f.ID, v)
		}
		switch f.ID {
		case FigureRunning:
			m.Running, m.HasLoad = v, true
		case FigureWaiting:
			m.Waiting = v
		case FigureKVUsage:
			m.KVUsage = min(v, 1)
		case FigureBlockTokens:
			if v > 1024 {
				return Metrics{}, fmt.Errorf("dialect: blocks of %v tokens, at most 1024", v)
			}
			m.BlockTokens = int(v)
		case FigureCacheBlocks:
			m.CacheBlocks = int(min(v, largest))
		case FigureCacheTokens:
			m.CacheTokens = int(min(v, largest))
		case FigureSleeping:
			m.Sleeping = v > 0
		default:
			m.counter(f.ID, v)
		}
	}
	m.HasCache = m.reported&(1<<mQueries) != 0 && m.reported&(1<<mHits) != 0
	return m, nil
}

// counter takes a figure that is only compared with that of the scrape before.
func (m *Metrics) counter(id FigureID, v float64) {
	reported := noMetric
	switch id {
	case FigureCacheQueries:
		m.CacheQueries, reported = v, mQueries
	case FigureCacheHits:
		m.CacheHits, reported = v, mHits
	case FigurePromptTokens:
		m.PromptTokens, reported = v, mPrompt
	case FigureOutputTokens:
		m.OutputTokens, reported = v, mOutput
	case FigureRequests:
		m.Requests, reported = v, mRequests
	case FigureAborted:
		m.Aborted, reported = v, mAborted
	case FigureStartTime:
		m.StartTime, reported = v, mStart
	}
	if reported != noMetric {
		m.reported |= 1 << reported
	}
}
