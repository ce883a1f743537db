package scenario

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// column is a column of the tables of one scenario.
type column struct {
	title string
	text  func(r *Row) string
}

func number(title string, digits int, value func(m *Metrics) float64) column {
	return column{title, func(r *Row) string { return fmt.Sprintf("%.*f", digits, value(&r.Mean)) }}
}

func plusMinus(title string, digits int, value func(m *Metrics) float64) column {
	return column{title, func(r *Row) string { return fmt.Sprintf("%.*f", digits, value(&r.CI)) }}
}

// columns are those of tables for people; JSON has all figures.
var columns = []column{
	{"policy", func(r *Row) string { return r.Policy }},
	number("goodput %", 1, func(m *Metrics) float64 { return 100 * m.Goodput }),
	plusMinus("±", 1, func(m *Metrics) float64 { return 100 * m.Goodput }),
	number("good/s", 2, func(m *Metrics) float64 { return m.Good }),
	number("TTFT p50 s", 2, func(m *Metrics) float64 { return m.TTFT50 }),
	number("p95", 2, func(m *Metrics) float64 { return m.TTFT95 }),
	plusMinus("±", 2, func(m *Metrics) float64 { return m.TTFT95 }),
	number("p99", 2, func(m *Metrics) float64 { return m.TTFT99 }),
	number("TPOT p50 ms", 1, func(m *Metrics) float64 { return 1e3 * m.TPOT50 }),
	number("p95", 1, func(m *Metrics) float64 { return 1e3 * m.TPOT95 }),
	number("hit %", 1, func(m *Metrics) float64 { return 100 * m.Hit }),
	number("predicted", 1, func(m *Metrics) float64 { return 100 * m.PredictedHit }),
	number("saved Mtok", 1, func(m *Metrics) float64 { return m.Avoided / 1e6 }),
	number("skew", 2, func(m *Metrics) float64 { return m.SkewBusy }),
	number("queue", 1, func(m *Metrics) float64 { return m.Queue }),
}

// WriteTable writes a comparison for a terminal.
func WriteTable(w io.Writer, c *Comparison) error {
	kind := "generated"
	if c.Recorded {
		kind = "recorded"
	}
	fmt.Fprintf(w, "%s: %s, load × %g, %d requests, %d engines, %d seeds, ideal hit %.1f %%\n", c.Scenario, kind, c.Load,
		c.Requests, c.Engines, len(c.Seeds), 100*c.Rows[0].Mean.Ideal)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, col := range columns {
		fmt.Fprint(t, col.title, "\t")
	}
	fmt.Fprintln(t)
	for _, r := range c.Rows {
		for _, col := range columns {
			fmt.Fprint(t, col.text(r), "\t")
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// Summary is how one policy did over several scenarios, beside the best of each.
type Summary struct {
	Policy string  `json:"policy"`
	Title  string  `json:"title"`
	Good   float64 `json:"good_of_best"`  // geometric mean of Metrics.Score, of the best policy's
	Worst  float64 `json:"worst_of_best"` // the least of these
	Where  string  `json:"worst_scenario"`
	TTFT   float64 `json:"ttft_mean_of_best"` // geometric mean of the mean time to the first token, of the best policy's
	TTFT95 float64 `json:"ttft_p95_of_best"`  // likewise
	Hit    float64 `json:"hit"`               // mean
}

// Summarize compares policies over scenarios. Every comparison must have the same
// policies in the same order.
func Summarize(all []*Comparison) []Summary {
	out := make([]Summary, len(all[0].Rows))
	for i := range out {
		out[i] = Summary{Policy: all[0].Rows[i].Policy, Title: all[0].Rows[i].Title, Worst: math.Inf(1)}
	}
	n := float64(len(all))
	for _, c := range all {
		good, ttft, ttft95 := 1e-9, math.Inf(1), math.Inf(1)
		for _, r := range c.Rows {
			good, ttft = max(good, r.Mean.Score), min(ttft, r.Mean.TTFTMean)
			ttft95 = min(ttft95, r.Mean.TTFT95)
		}
		for i, r := range c.Rows {
			s, share := &out[i], max(1e-9, r.Mean.Score)/good
			s.Good += math.Log(share) / n
			s.TTFT += math.Log(r.Mean.TTFTMean/ttft) / n
			s.TTFT95 += math.Log(r.Mean.TTFT95/ttft95) / n
			s.Hit += r.Mean.Hit / n
			if share < s.Worst {
				s.Worst, s.Where = share, c.Scenario
			}
		}
	}
	for i := range out {
		s := &out[i]
		s.Good, s.TTFT, s.TTFT95 = math.Exp(s.Good), math.Exp(s.TTFT), math.Exp(s.TTFT95)
	}
	return out
}

// WriteSummary writes a summary as a Markdown table, which terminals show as well.
func WriteSummary(w io.Writer, all []Summary, scenarios int) error {
	fmt.Fprintf(w, "| over %d scenarios, 1 = the best of each | good requests | worst scenario | mean TTFT | p95 TTFT | "+
		"hit %% |\n|---|---|---|---|---|---|\n", scenarios)
	for _, s := range all {
		if _, err := fmt.Fprintf(w, "| %s | %.3f | %.3f (%s) | %.2f | %.2f | %.1f |\n", s.Policy, s.Good, s.Worst, s.Where,
			s.TTFT, s.TTFT95, 100*s.Hit); err != nil {
			return err
		}
	}
	return nil
}
