package scenario

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/replay/router"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// openCase opens a scenario text.
func openCase(t *testing.T, text string) Case {
	t.Helper()
	f, err := Read(write(t, text))
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.Open(&Sources{})
	if err != nil {
		t.Fatal(err)
	}
	return Case{f, w}
}

// TestTune_findsGain: a policy that is made bad by a constant is found to be better
// without it; one whose constant changes nothing is left alone.
func TestTune_findsGain(t *testing.T) {
	cases := []Case{openCase(t, "generate: {kind: burst, clients: 24, turns: 4, system: 6000, think: 0.2}\n"+
		"engines: [{preset: 8b-h100, count: 3}]\n")}
	sticky := func(ratio float64) (Policy, error) {
		return Peer("stickyspill", map[string]float64{"ratio": ratio, "slack": 0})
	}
	stay := router.Param{Name: "stay", Default: 1e9, Choices: []float64{1e9, 1.5}}
	r, err := Tune(&Tunable{Name: "test", Params: []router.Param{stay},
		With: func(set map[string]float64) (Policy, error) {
			if v, ok := set["stay"]; ok {
				return sticky(v)
			}
			return Peer("longestprefix", nil)
		}}, cases, Options{Seeds: []uint64{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Noise || r.Gain < 0.1 || r.Set["stay"] != 1.5 || r.Spec() != "test:stay=1.5" {
		t.Errorf("tuned %+v", *r)
	}
	r, err = Tune(&Tunable{Name: "test", Params: []router.Param{{Name: "nothing", Choices: []float64{0, 1}}},
		With: func(map[string]float64) (Policy, error) { return sticky(2) }}, cases, Options{Seeds: []uint64{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Noise || len(r.Set) != 0 || r.Gain != 0 {
		t.Errorf("tuned %+v, want that nothing is found", *r)
	}
}

func TestFindTunable(t *testing.T) {
	k, err := FindTunable(ProductName, scheduler.Profile{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range k.Params {
		for _, v := range p.Choices {
			if _, err := k.With(map[string]float64{p.Name: v}); err != nil {
				t.Errorf("%s=%g: %v", p.Name, v, err)
			}
		}
	}
	for text, want := range map[string]string{"kvasir:objective=7": "want 0 (blend)", "kvasir:x=1": `no constant "x"`} {
		if _, err := ParsePolicy(text, scheduler.Profile{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// TestSummarize: shares are of the best policy of each scenario.
func TestSummarize(t *testing.T) {
	row := func(name string, good, ttft float64) *Row {
		return &Row{Policy: name, Mean: Metrics{Score: good, TTFTMean: ttft, TTFT95: 2 * ttft, Hit: 0.5}}
	}
	s := Summarize([]*Comparison{
		{Scenario: "one", Rows: []*Row{row("a", 10, 1), row("b", 5, 4)}},
		{Scenario: "two", Rows: []*Row{row("a", 8, 1), row("b", 16, 1)}},
	})
	if s[0].Worst != 0.5 || s[0].Where != "two" || math.Abs(s[0].Good-math.Sqrt(0.5)) > 1e-9 || s[0].TTFT != 1 ||
		s[1].Where != "one" || math.Abs(s[1].TTFT-2) > 1e-9 {
		t.Errorf("%+v", s)
	}
}

// TestWriteHTML: the page has no script, refers to nothing else, and escapes names.
func TestWriteHTML(t *testing.T) {
	k := openCase(t, "name: a <b> & c\nabout: \"<script>x</script>\"\n"+
		"generate: {kind: burst, clients: 4, turns: 2, system: 500}\nengines: [{preset: 8b-h100, count: 2}]\n")
	var all []*Comparison
	for _, load := range []float64{0.5, 1} {
		c, err := Compare(k.File, k.Workload, everyPolicy(t), Options{Seeds: []uint64{1, 2}, Load: load})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	var b bytes.Buffer
	if err := WriteHTML(&b, all); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, bad := range []string{"<script", "http:", "https:", "src=", "href=", "<b>", "NaN", "Inf"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if strings.Count(page, "<svg") != 2*3+2 || strings.Count(page, "<polyline") != 2*len(all[0].Rows) {
		t.Errorf("%d plots, %d lines", strings.Count(page, "<svg"), strings.Count(page, "<polyline"))
	}
}
