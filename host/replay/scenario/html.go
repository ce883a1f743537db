package scenario

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// WriteHTML writes comparisons as one page without scripts and without references to
// other files: for each scenario a table and plots, and curves over the load where it
// was run with several loads.
func WriteHTML(w io.Writer, all []*Comparison) error {
	var b strings.Builder
	b.WriteString(`<!doctype html><html lang="en"><meta charset="utf-8"><title>kvasir replay</title><style>
body{font:14px system-ui,sans-serif;margin:2em auto;max-width:1100px;color:#222;background:#fff}
table{border-collapse:collapse;margin:1em 0}td,th{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}svg{margin:.5em 1em .5em 0}text{font:11px system-ui,sans-serif;fill:#222}
small{color:#555}</style><h1>Placement policies in virtual time</h1>
<p><small>Engines are simulated. Policies other than kvasir are this project's implementations, not the products.
± is the 95 % confidence interval of the mean over the seeds.</small></p>`)
	for _, group := range byScenario(all) {
		first := group[0]
		fmt.Fprintf(&b, "<h2>%s</h2><p>%s</p>", html.EscapeString(first.Scenario), html.EscapeString(first.About))
		for _, c := range group {
			c.htmlTable(&b)
			b.WriteString(barChart("goodput, %", c, func(m *Metrics) float64 { return 100 * m.Goodput }))
			b.WriteString(barChart("time to the first token, p95, s", c, func(m *Metrics) float64 { return m.TTFT95 }))
			b.WriteString(barChart("prompt tokens reused, %", c, func(m *Metrics) float64 { return 100 * m.Hit }))
		}
		if len(group) > 1 {
			b.WriteString(lineChart("goodput over load, %", group, func(m *Metrics) float64 { return 100 * m.Goodput }))
			b.WriteString(lineChart("time to the first token, p95, over load, s", group,
				func(m *Metrics) float64 { return m.TTFT95 }))
		}
	}
	b.WriteString("</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// byScenario groups comparisons by scenario, in order.
func byScenario(all []*Comparison) (out [][]*Comparison) {
	at := map[string]int{}
	for _, c := range all {
		i, ok := at[c.Scenario]
		if !ok {
			i = len(out)
			at[c.Scenario] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	return out
}

func (c *Comparison) htmlTable(b *strings.Builder) {
	kind := "generated"
	if c.Recorded {
		kind = "recorded"
	}
	fmt.Fprintf(b, "<p>load × %g, %s: %d requests, %d engines, %d seeds, ideal reuse %.1f %%</p><table><tr>", c.Load, kind,
		c.Requests, c.Engines, len(c.Seeds), 100*c.Rows[0].Mean.Ideal)
	for _, col := range columns {
		fmt.Fprintf(b, "<th>%s</th>", html.EscapeString(col.title))
	}
	b.WriteString("</tr>")
	for _, r := range c.Rows {
		fmt.Fprintf(b, "<tr title=%q>", html.EscapeString(r.Title))
		for _, col := range columns {
			fmt.Fprintf(b, "<td>%s</td>", html.EscapeString(col.text(r)))
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</table>")
}

// colors of the policies, in the order of rows; the first is the product's.
var colors = []string{"#c0392b", "#2c7fb8", "#7fcdbb", "#756bb1", "#31a354", "#fd8d3c", "#636363", "#e7ba52", "#17becf",
	"#8c564b", "#bcbd22", "#9edae5", "#ff9896", "#393b79"}

func color(i int) string { return colors[i%len(colors)] }

// barChart returns a plot with one bar for each policy and its interval.
func barChart(title string, c *Comparison, value func(*Metrics) float64) string {
	const left, width, row, head = 150, 150, 16, 20
	most := 1e-9
	for _, r := range c.Rows {
		most = max(most, value(&r.Mean)+value(&r.CI))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg width="%d" height="%d" role="img"><text x="0" y="13">%s</text>`, left+width+50,
		head+row*len(c.Rows)+4, html.EscapeString(title))
	for i, r := range c.Rows {
		y := head + row*i
		v, ci := value(&r.Mean), value(&r.CI)
		x := left + width*v/most
		fmt.Fprintf(&b, `<text x="0" y="%d">%s</text><rect x="%d" y="%d" width="%.1f" height="11" fill="%s"/>`, y+11,
			html.EscapeString(short(r.Policy)), left, y+1, width*v/most, color(i))
		if ci > 0 {
			fmt.Fprintf(&b, `<path d="M%.1f %d H%.1f" stroke="#000"/>`, max(left, x-width*ci/most), y+6, x+width*ci/most)
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%.3g</text>`, x+width*ci/most+4, y+11, v)
	}
	b.WriteString("</svg>")
	return b.String()
}

// short bounds the length of a name in a plot.
func short(s string) string {
	if r := []rune(s); len(r) > 24 {
		return string(r[:23]) + "…"
	}
	return s
}

// lineChart returns a plot with one line for each policy over the loads.
func lineChart(title string, group []*Comparison, value func(*Metrics) float64) string {
	const left, width, top, height = 45, 420, 24, 200
	group = slices.Clone(group)
	slices.SortFunc(group, func(a, b *Comparison) int { return int(math.Copysign(1, a.Load-b.Load)) })
	low, high, most := group[0].Load, group[len(group)-1].Load, 1e-9
	for _, c := range group {
		for _, r := range c.Rows {
			most = max(most, value(&r.Mean))
		}
	}
	var b strings.Builder
	rows := group[0].Rows
	fmt.Fprintf(&b, `<svg width="%d" height="%d" role="img"><text x="0" y="13">%s</text>`+
		`<path d="M%d %d V%d H%d" fill="none" stroke="#888"/><text x="0" y="%d">%.3g</text><text x="0" y="%d">0</text>`,
		left+width+190, top+max(height, 14*len(rows))+30, html.EscapeString(title), left, top, top+height, left+width, top+10,
		most, top+height)
	x := func(load float64) float64 { return left + width*(load-low)/max(1e-9, high-low) }
	for _, c := range group {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%g</text>`, x(c.Load)-6, top+height+14, c.Load)
	}
	for i, r := range rows {
		var points []string
		for _, c := range group {
			if i < len(c.Rows) {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(c.Load), top+height-height*value(&c.Rows[i].Mean)/most))
			}
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/><text x="%d" y="%d" `+
			`style="fill:%s">%s</text>`, strings.Join(points, " "), color(i), left+width+20, top+12+14*i, color(i),
			html.EscapeString(short(r.Policy)))
	}
	b.WriteString("</svg>")
	return b.String()
}
