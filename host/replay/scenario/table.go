package scenario

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable writes a comparison for a terminal.
func WriteTable(w io.Writer, c *Comparison) error {
	fmt.Fprintf(w, "%s: %d requests, %d engines, %d seeds, ideal hit %.1f %%\n", c.Scenario, c.Requests, c.Engines,
		len(c.Seeds), 100*c.Rows[0].Mean.Ideal)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tgoodput %\t±\tanswers/s\tTTFT p50\tp95\tp99 s\t± p95\tTPOT p95 ms\thit %\tsaved Mtok\tskew\t"+
		"queue\tpredicted %\t")
	for _, r := range c.Rows {
		m, ci := &r.Mean, &r.CI
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\t\n", r.Policy,
			100*m.Goodput, 100*ci.Goodput, m.Answers, m.TTFT50, m.TTFT95, m.TTFT99, ci.TTFT95, 1e3*m.TPOT95, 100*m.Hit,
			m.Avoided/1e6, m.SkewBusy, m.Queue, 100*m.PredictedHit)
	}
	return t.Flush()
}
