package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// row is a line of the table in README: the cost of a scenario in nginx, and those of
// the router as ratios to it, all from one run.
type row struct {
	name   string
	nginx  string // with its unit, for the reader
	ratios []float64
}

// Marks of the table in README.
const (
	tableBegin = "<!-- data path: written by make bench-readme -->\n"
	tableEnd   = "<!-- data path ends -->\n"
)

var columns = []string{"nginx", "placing by load", "prompts and prediction on"}

// tolerance is how much worse a ratio may be than the recorded one.
const tolerance = 1.10

// format returns the table of rows.
func format(rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |", r.name, r.nginx)
		for _, x := range r.ratios {
			fmt.Fprintf(&b, " %.2f |", x)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// splitTable returns what stands before, between and after the marks.
func splitTable(readme string) (before, table, after string, err error) {
	before, rest, ok := strings.Cut(readme, tableBegin)
	table, after, end := strings.Cut(rest, tableEnd)
	if !ok || !end {
		return "", "", "", errors.New("bench: README has no marks of the table")
	}
	return before + tableBegin, table, tableEnd + after, nil
}

// parse reads a table that format wrote.
func parse(table string) (rows []row, err error) {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for _, line := range lines[min(2, len(lines)):] {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != len(columns)+1 {
			return nil, fmt.Errorf("bench: %d cells in %q", len(cells), line)
		}
		r := row{name: strings.TrimSpace(cells[0]), nginx: strings.TrimSpace(cells[1])}
		for _, c := range cells[2:] {
			x, err := strconv.ParseFloat(strings.TrimSpace(c), 64)
			if err != nil {
				return nil, fmt.Errorf("bench: %w in %q", err, line)
			}
			r.ratios = append(r.ratios, x)
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, errors.New("bench: the table has no rows")
	}
	return rows, nil
}

// worse returns the ratios of r that are worse than recorded allows, each as a line.
func (r *row) worse(recorded []row) (lines []string) {
	for i := range recorded {
		if recorded[i].name != r.name {
			continue
		}
		for k, x := range r.ratios {
			if was := recorded[i].ratios[k]; x > was*tolerance {
				lines = append(lines, fmt.Sprintf("%s, %s: %.2f x nginx, recorded are %.2f", r.name, columns[k+1], x, was))
			}
		}
		return lines
	}
	return []string{r.name + ": not recorded: run make bench-readme"}
}

func TestTable(t *testing.T) {
	rows := []row{{"a request", "19.0 µs", []float64{1.5, 2.25}}, {"an event", "9 µs", []float64{1, 0.98}}}
	readme := "text\n" + tableBegin + format(rows) + tableEnd + "more\n"
	before, table, after, err := splitTable(readme)
	if err != nil || before+table+after != readme {
		t.Fatalf("got %q %q %q, %v", before, table, after, err)
	}
	got, err := parse(table)
	if err != nil || format(got) != format(rows) {
		t.Fatalf("got %v, %v", got, err)
	}
	same := row{"a request", "25 µs", []float64{1.64, 2.4}}
	if w := same.worse(got); len(w) != 0 {
		t.Errorf("within the tolerance: got %q", w)
	}
	bad := row{"a request", "25 µs", []float64{1.66, 2.4}}
	if w := bad.worse(got); len(w) != 1 || !strings.Contains(w[0], "placing by load: 1.66") {
		t.Errorf("a regression: got %q", w)
	}
	if w := (&row{name: "another"}).worse(got); len(w) != 1 {
		t.Errorf("a scenario that is not recorded: got %q", w)
	}
	for _, bad := range []string{"", "no marks", tableBegin, "| | a |\n|---|\n| x | 1 |\n"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q was parsed", bad)
		}
	}
	if _, _, _, err := splitTable("no marks"); err == nil {
		t.Error("a README without marks was split")
	}
}
