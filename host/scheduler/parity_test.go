package scheduler

import (
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/exchange"
)

func TestParity_window(t *testing.T) {
	var p parity
	see := func(agrees bool, times int) (bad bool) {
		for range times {
			bad, _, _, _ = p.observe(3, 7, agrees)
		}
		return bad
	}
	if see(false, parityMin-1) {
		t.Error("contradicted before enough answers")
	}
	if !see(false, 1) || !p.has(3, 7) || p.has(3, 8) || p.has(2, 7) {
		t.Error("not contradicted for exactly its endpoint")
	}
	if !see(true, 7) {
		t.Error("recovered while most counts differ")
	}
	if see(true, 8) || p.has(3, 7) {
		t.Error("not recovered")
	}
	if see(false, 4) {
		t.Error("contradicted by a few answers")
	}
	p.observe(3, 8, true)
	if len(p.counts) != 1 {
		t.Errorf("%d endpoints are kept of one slot", len(p.counts))
	}
}

// TestParity: counts that differ make a model's prompts approximate on the endpoint
// and halve what a match there is worth, until counts agree again.
func TestParity(t *testing.T) {
	var changes []bool
	r := newRig(t, 2, func(sc *StateConfig, c *Config) {
		sc.Contradicted = func(model, url string, bad bool, differ, of int) {
			if model != "m" || url != "http://10.0.0.0:8000" || differ > of {
				t.Errorf("%s at %s: %d of %d", model, url, differ, of)
			}
			changes = append(changes, bad)
		}
	})
	text := words(1, 640)
	r.index.Add(0, chainOf(text, "s", 16))
	place := func(reported int) *Explanation {
		req := r.request(text)
		p := r.place(req)
		p.FirstToken()
		p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete, HasUsage: true, PromptTokens: reported})
		x, _ := r.state.Explain("acme", req.ID)
		return x
	}
	x := place(len(text) / 4)
	full := x.Candidates[0].Columns["uncached_tokens"]
	for range parityMin + parityWindow {
		x = place(len(text)/4 + 5)
	}
	weak := x.Candidates[0].Columns
	if x.TokensExact || !strings.Contains(x.PromptReason, "other prompt tokens") || weak["index_trust"] != 0.5 ||
		weak["uncached_tokens"] < full+300 || x.Candidates[1].Columns["index_trust"] != 1 {
		t.Errorf("contradicted: exact %v, %q, columns %v; before %v", x.TokensExact, x.PromptReason, weak, full)
	}
	if s := r.state.Parity(); len(s) != 1 || !s[0].Contradicted || s[0].Differ != parityWindow {
		t.Errorf("got %+v", s)
	}
	for range parityWindow + 1 {
		x = place(len(text) / 4)
	}
	if !x.TokensExact || x.Candidates[0].Columns["index_trust"] != 1 || len(changes) != 2 || !changes[0] || changes[1] {
		t.Errorf("recovered: exact %v, %v, changes %v", x.TokensExact, x.Candidates[0].Columns, changes)
	}
}
