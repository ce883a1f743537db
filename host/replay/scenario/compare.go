package scenario

import (
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/replay"
	"github.com/kvasir-router/kvasir/host/replay/virtual"
)

// Row is the results of one policy in one scenario, one run per seed.
type Row struct {
	Policy string    `json:"policy"`
	Title  string    `json:"title"`
	Runs   []Metrics `json:"runs"`
	Mean   Metrics   `json:"mean"`
	// CI is half the width of the 95 % confidence interval of each mean, by Student's
	// distribution over the seeds; 0 with one seed.
	CI      Metrics `json:"ci95"`
	Seconds float64 `json:"-"` // of real time, all runs
}

// Comparison is the results of policies in one scenario.
type Comparison struct {
	Scenario string   `json:"scenario"`
	About    string   `json:"about,omitempty"`
	Recorded bool     `json:"recorded"` // the workload is a recording, not a generated one
	Load     float64  `json:"load"`     // times as fast as the scenario says
	Seeds    []uint64 `json:"seeds"`
	Engines  int      `json:"engines"`
	Requests int      `json:"requests"` // of the first seed
	Rows     []*Row   `json:"rows"`
}

// Options are settings of a comparison.
type Options struct {
	Seeds []uint64 // required
	Load  float64  // times as fast as the scenario says; 0 = 1
	// Progress is called during the runs. May be nil.
	Progress func(what string, done, total int)
}

// Compare runs each policy over the scenario with each seed.
func Compare(f *File, w *Workload, policies []Policy, o Options) (*Comparison, error) {
	c := &Comparison{Scenario: f.Name, About: f.About, Recorded: w.Recorded(), Load: orOne(o.Load), Seeds: o.Seeds}
	for _, p := range policies {
		c.Rows = append(c.Rows, &Row{Policy: p.Name, Title: p.Title})
	}
	for n, seed := range o.Seeds {
		t := w.Trace(seed, c.Load)
		engines, err := f.engines(t.BlockTokens)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			c.Requests, c.Engines = t.Requests(), len(engines)
		}
		one := seedRun{file: f, seed: seed, trace: t, engines: engines, foreign: f.foreign(seed), changes: f.changes(engines),
			ideal: replay.IdealHit(t), progress: o.Progress}
		for i := range policies {
			if err := one.run(&policies[i], c.Rows[i]); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range c.Rows {
		r.summarize()
	}
	return c, nil
}

// seedRun is what the runs of one seed share.
type seedRun struct {
	file     *File
	seed     uint64
	trace    *replay.Trace
	engines  []virtual.Engine
	foreign  []virtual.Foreign
	changes  []virtual.Change
	ideal    float64
	progress func(string, int, int)
}

// run adds one run of a policy to its row.
func (s *seedRun) run(p *Policy, row *Row) error {
	began := time.Now()
	r, err := p.New(s.engines, s.seed)
	if err != nil {
		return err
	}
	cfg := virtual.Config{Engines: s.engines, Trace: s.trace, Router: r, Foreign: s.foreign, Changes: s.changes,
		MaxThink: time.Duration(s.file.Trace.MaxThink), Scrape: p.Scrape}
	if s.progress != nil {
		what := fmt.Sprintf("%s, %s, seed %d", s.file.Name, p.Name, s.seed)
		cfg.Progress = func(done, total int) { s.progress(what, done, total) }
	}
	result, err := virtual.Run(cfg)
	if err != nil {
		return fmt.Errorf("scenario %s: policy %s: %w", s.file.Name, p.Name, err)
	}
	row.Runs = append(row.Runs, metricsOf(result, s.file.SLO, s.ideal, closed(s.trace)))
	row.Seconds += time.Since(began).Seconds()
	return nil
}
