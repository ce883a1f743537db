package backend

import (
	"errors"
	"fmt"
	"time"
)

// Parser reads what an engine that no dialect knows answers to a scrape. It is
// called by many watchers at once.
type Parser interface {
	// Parse returns the figures of a scrape of at most 4 MiB. ErrNoFigures says that
	// there are none this time; another error that the text, or the parser, is of no use.
	Parse(text []byte) ([]Figure, error)
}

// ErrNoFigures is returned by a Parser that has nothing to tell.
var ErrNoFigures = errors.New("backend: the parser tells no figures")

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

// Parsed is a dialect whose scrapes a Parser reads.
type Parsed struct {
	Dialect
	Parser  Parser
	Metrics string // path that is scraped
	Health  string // path that is asked for health, "" = the dialect's
}

// HealthPath implements Dialect.
func (p Parsed) HealthPath() string {
	if p.Health != "" {
		return p.Health
	}
	return p.Dialect.HealthPath()
}

// MetricsPath implements Dialect.
func (p Parsed) MetricsPath() string { return p.Metrics }

// ParseMetrics implements Dialect; what the parser cannot read has no figures.
func (p Parsed) ParseMetrics(text []byte) Metrics {
	m, _ := p.tryParse(text) // the watcher asks tryParse, which tells why
	return m
}

func (p Parsed) tryParse(text []byte) (Metrics, error) {
	figures, err := p.Parser.Parse(text)
	if err != nil {
		return Metrics{}, err
	}
	return metricsOf(figures)
}

// largest bounds figures that are sizes.
const largest = 1 << 40

// metricsOf takes figures over; those it does not know are passed over.
func metricsOf(figures []Figure) (m Metrics, err error) {
	for _, f := range figures {
		v := f.Value
		if !(v >= 0 && v < 1e18) {
			return Metrics{}, fmt.Errorf("backend: figure %d is %v", f.ID, v)
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
				return Metrics{}, fmt.Errorf("backend: blocks of %v tokens, at most 1024", v)
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
	m.HasCache = m.told&(1<<mQueries) != 0 && m.told&(1<<mHits) != 0
	return m, nil
}

// counter takes a figure over that is only compared with that of the scrape before.
func (m *Metrics) counter(id FigureID, v float64) {
	told := noMetric
	switch id {
	case FigureCacheQueries:
		m.CacheQueries, told = v, mQueries
	case FigureCacheHits:
		m.CacheHits, told = v, mHits
	case FigurePromptTokens:
		m.PromptTokens, told = v, mPrompt
	case FigureOutputTokens:
		m.OutputTokens, told = v, mOutput
	case FigureRequests:
		m.Requests, told = v, mRequests
	case FigureAborted:
		m.Aborted, told = v, mAborted
	case FigureStartTime:
		m.StartTime, told = v, mStart
	}
	if told != noMetric {
		m.told |= 1 << told
	}
}

// parse reads a scrape. ok is false where a Parser could not: what is known of the
// engine's load and cache is then nothing, and its sizes stay.
func (w *Watcher) parse(body []byte) (m Metrics, ok bool) {
	p, foreign := w.cfg.Dialect.(Parsed)
	if !foreign {
		return w.cfg.Dialect.ParseMetrics(body), true
	}
	m, err := p.tryParse(body)
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	told := false
	w.note(func(s *Status) {
		told = s.FiguresReason == fault
		s.FiguresReason = fault
		if err == nil {
			return
		}
		if !errors.Is(err, ErrNoFigures) {
			s.ParseFails++
		}
		was := &s.Metrics
		s.Metrics = Metrics{BlockTokens: was.BlockTokens, CacheBlocks: was.CacheBlocks, CacheTokens: was.CacheTokens}
		s.ScrapedAt = time.Time{}
	})
	if err != nil && !told {
		w.cfg.Log.Warn("the engine's figures are unknown", "endpoint", w.cfg.URL, "err", err)
	}
	return m, err == nil
}
