package backend

import (
	"errors"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
)

// Parser reads the scrapes of an engine that no dialect knows. It is called by many
// watchers at once.
type Parser interface {
	// Parse returns the figures of a scrape of at most 4 MiB. ErrNoFigures means that
	// there are none this time; another error that the text, or the parser, cannot be
	// used.
	Parse(text []byte) ([]dialect.Figure, error)
}

// ErrNoFigures is returned by a Parser that has no figures to report.
var ErrNoFigures = errors.New("backend: the parser returned no metrics")

// Scrape is how an engine is scraped whose dialect has no metrics.
type Scrape struct {
	Parser  Parser
	Metrics string // path that is scraped
	Health  string // path of the health check, "" = the dialect's
}

// healthPath returns the path of the engine's health check.
func (w *Watcher) healthPath() string {
	if s := w.cfg.Scrape; s != nil && s.Health != "" {
		return s.Health
	}
	return w.cfg.Dialect.Health
}

// metricsPath returns the path that is scraped, "" for none.
func (w *Watcher) metricsPath() string {
	if w.cfg.Scrape != nil {
		return w.cfg.Scrape.Metrics
	}
	return w.cfg.Dialect.Metrics
}

// parse reads a scrape. ok is false where a Parser could not: what is known of the
// engine's load and cache is then nothing, and its sizes stay.
func (w *Watcher) parse(body []byte) (m dialect.Metrics, ok bool) {
	if w.cfg.Scrape == nil {
		return w.cfg.Dialect.Parse(body), true
	}
	figures, err := w.cfg.Scrape.Parser.Parse(body)
	if err == nil {
		m, err = dialect.MetricsOf(figures)
	}
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	logged := false
	w.note(func(s *Status) {
		logged = s.FiguresReason == fault
		s.FiguresReason = fault
		if err == nil {
			return
		}
		if !errors.Is(err, ErrNoFigures) {
			s.ParseFails++
		}
		was := &s.Metrics
		s.Metrics = dialect.Metrics{BlockTokens: was.BlockTokens, CacheBlocks: was.CacheBlocks, CacheTokens: was.CacheTokens}
		s.ScrapedAt = time.Time{}
	})
	if err != nil && !logged {
		w.cfg.Log.Warn("engine metrics not available", "endpoint", w.cfg.URL, "err", err)
	}
	return m, err == nil
}
