package proxy

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
)

// TestHints: what clients hint at is read, checked and not forwarded.
func TestHints(t *testing.T) {
	var seen http.Header
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, _ *engine) { seen = r.Header.Clone() })
	var got Request
	r := newRouter(e.addr)
	r.schedule = func(q *Request) error { got = *q; return nil }
	x := start(t, r, func(c *setup) {
		c.Hints.Labels = []HintLabel{{"team", "x-team"}, {"data_class", "X-Data-Class"}}
	})
	for _, c := range []struct {
		name     string
		head     []string
		status   int
		priority string
		labels   []identity.Label
	}{
		{"none", nil, 200, "", nil},
		{"all", []string{"X-Kvasir-Priority: high\r\n", "x-team: eu/west-1:a.b\r\n", "x-data-class: phi\r\n"}, 200, "high",
			[]identity.Label{{Name: "data_class", Value: "phi"}, {Name: "team", Value: "eu/west-1:a.b"}}},
		{"empty", []string{"x-kvasir-priority:\r\n", "x-team: \r\n"}, 200, "", nil},
		{"underscores", []string{"x_team: a\r\n", "x_kvasir_priority: high\r\n"}, 200, "", nil},
		{"twice", []string{"x-team: a\r\n", "X-Team: b\r\n"}, 400, "", nil},
		{"priority twice", []string{"x-kvasir-priority: a\r\n", "X-Kvasir-Priority: b\r\n"}, 400, "", nil},
		{"bad character", []string{"x-team: a\"b\r\n"}, 400, "", nil},
		{"not ASCII", []string{"x-kvasir-priority: h\u00e9\r\n"}, 400, "", nil},
		{"long priority", []string{"x-kvasir-priority: " + strings.Repeat("a", 33) + "\r\n"}, 400, "", nil},
		{"long label", []string{"x-team: " + strings.Repeat("a", 129) + "\r\n"}, 400, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.set(func() { got, seen = Request{}, nil })
			resp, body := do(t, x.addr, post(plainBody, c.head...))
			if resp.StatusCode != c.status {
				t.Fatalf("got %d %s, want %d", resp.StatusCode, body, c.status)
			}
			if c.status != 200 {
				return
			}
			r.outcome(t)
			if got.Priority != c.priority || !slices.Equal(got.Labels, c.labels) {
				t.Errorf("got %q, %v, want %q, %v", got.Priority, got.Labels, c.priority, c.labels)
			}
			for k := range seen {
				if low := strings.ToLower(k); strings.Contains(low, "team") || strings.Contains(low, "kvasir") ||
					strings.Contains(low, "class") {
					t.Errorf("header %s reached the engine", k)
				}
			}
		})
	}
}

func TestHints_config(t *testing.T) {
	for name, h := range map[string]Hints{
		"label twice":   {Labels: []HintLabel{{"a", "x-a"}, {"a", "x-b"}}},
		"header twice":  {Labels: []HintLabel{{"a", "x-a"}, {"b", "X-A"}}},
		"session again": {Session: "x-s", Labels: []HintLabel{{"a", "x-s"}}},
		"internal":      {Labels: []HintLabel{{"a", "x-tenant-id"}}},
		"credential":    {Labels: []HintLabel{{"a", "Authorization"}}},
		"no name":       {Labels: []HintLabel{{"a", ""}}},
		"no label":      {Labels: []HintLabel{{"", "x-a"}}},
		"too long":      {Labels: []HintLabel{{"a", "x-" + strings.Repeat("a", 62)}}},
		"too many":      {Labels: make([]HintLabel, MaxHintLabels+1)},
	} {
		if err := (EdgeConfig{Hints: h}).Validate(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := (EdgeConfig{Hints: Hints{Labels: []HintLabel{{"a", "x-a"}, {"b", "x-kvasir-b"}}}}).Validate(); err != nil {
		t.Error(err)
	}
}

// FuzzValidHint: what passes holds nothing that a key of policy's cache or a log
// could trip over.
func FuzzValidHint(f *testing.F) {
	f.Add("high")
	f.Add("a\x00b")
	f.Fuzz(func(t *testing.T, s string) {
		if !validHint([]byte(s), 8) {
			return
		}
		if len(s) > 8 || strings.ContainsFunc(s, func(r rune) bool {
			return r <= ' ' || r > '~' ||
				strings.ContainsRune(`"'\{}[]<>,;=`, r)
		}) {
			t.Errorf("%q passes", s)
		}
	})
}
