package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/scheduler"
)

// everyPolicy returns the product and all peers.
func everyPolicy(t *testing.T) []Policy {
	t.Helper()
	out := []Policy{Product("kvasir", scheduler.Profile{})}
	for _, name := range PeerNames() {
		p, err := ParsePeer(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// write writes a scenario file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "case.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const busy = `
generate: {kind: burst, clients: 24, turns: 4, system: 6000, think: 0.5}
engines:
- {preset: 8b-h100, count: 2}
- {preset: 8b-a100, count: 1, cache: 0.3, speed: 0.5, decode: 2}
foreign:
- {engine: 1, rate: 2, prompt: 8000, output: 100, from: 1s, to: 4s}
slow:
- {engine: 2, at: 2s, decode: 20}
`

// TestCompare_repeats: the same seeds give the same figures, for every policy.
func TestCompare_repeats(t *testing.T) {
	run := func() string {
		f, err := Read(write(t, busy))
		if err != nil {
			t.Fatal(err)
		}
		w, err := f.Open(&Sources{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compare(f, w, everyPolicy(t), Options{Seeds: []uint64{1, 2}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Rows {
			if m := &r.Mean; m.Requests != 96 || m.Hit <= 0 || m.Hit > m.Ideal || m.TTFT50 <= 0 || m.TTFT95 < m.TTFT50 ||
				m.TTFT99 < m.TTFT95 || m.TPOT50 <= 0 || m.Answers <= 0 {
				t.Errorf("%s: %+v", r.Policy, *m)
			}
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if a, b := run(), run(); a != b {
		t.Errorf("the same comparison twice:\n%s\n%s", a, b)
	}
}

func TestRead_errors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"engines: [{preset: 8b-h100, count: 1}]", "want trace with a file, generate with a kind, or both"},
		{"generate: {kind: burst}", `missing required key "engines"`},
		{"generate: {kind: burst}\nengines:\n- {preset: h200, count: 1}", `:3: engines[0].preset: unknown preset "h200"`},
		{"generate: {kind: burst}\nengines:\n- {preset: 8b-h100, number: 1}", ":3: engines[0].number: unknown key"},
		{"generate: {kind: brust}\nengines: [{preset: 8b-h100, count: 1}]", `:1: generate.kind: want one of agentic, burst`},
		{"generate: {kind: burst}\nengines: [{preset: 8b-h100, count: 1}]\nslow:\n- {engine: 2, decode: 3}",
			":4: slow[0].engine: want 1 to 1, got 2"},
	} {
		if _, err := Read(write(t, c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\nerror %v, want %q", c.text, err, c.want)
		}
	}
}

func TestParsePeer(t *testing.T) {
	for text, want := range map[string]string{
		"nothing": "unknown policy", "lmetric:queued": "want NAME:CONSTANT=NUMBER",
		"lmetric:queued=x": "want NAME:CONSTANT=NUMBER",
	} {
		if _, err := ParsePeer(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	p, err := ParsePeer("lmetric:wrong=1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.New(nil, 1); err == nil || !strings.Contains(err.Error(), `no constant "wrong"`) {
		t.Errorf("error %v", err)
	}
}

// TestInterval: the interval of 1, 2, 3 is 2 ± 4.303/√3.
func TestInterval(t *testing.T) {
	if mu, half := interval([]float64{1, 2, 3}); mu != 2 || half < 2.484 || half > 2.485 {
		t.Errorf("%g ± %g", mu, half)
	}
}
