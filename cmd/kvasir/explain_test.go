package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/scheduler"
)

// TestExplain_counterfactual: the router is asked for what others would have chosen only
// with the flag.
func TestExplain_counterfactual(t *testing.T) {
	var query string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		if r.Method != "GET" || r.URL.Path != "/v1/explain/one" {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		fmt.Fprint(w, `{"allow":true,"request_id":"one","chosen":"http://a","counterfactual":`+
			`[{"name":"least work","kind":"baseline","endpoint":"http://b","same":false}]}`)
	}))
	defer s.Close()
	args := []string{"explain", "--request", "one", "--tenant", "acme", "--admin", s.URL, "--token", "secret"}
	if out := mustRun(t, args...); query != "tenant=acme" || strings.Contains(out, "least work") {
		t.Errorf("query %q: %s", query, out)
	}
	if out := mustRun(t, append(args, "--counterfactual")...); query != "counterfactual=true&tenant=acme" ||
		!strings.Contains(out, "baseline least work  http://b  no") {
		t.Errorf("query %q: %s", query, out)
	}
}

// TestExplain_earlierBlocks: the text says why an engine reports more cached tokens than
// were predicted, if that is known.
func TestExplain_earlierBlocks(t *testing.T) {
	n := func(v int) *int { return &v }
	for _, c := range []struct {
		reported *int
		earlier  bool // of the chosen endpoint
		want     string
	}{
		{nil, true, "not known"}, {n(64), false, "64"}, {n(48), true, "48"},
		{n(64), true, "64: the endpoint holds blocks that this router has not seen"},
	} {
		e := &scheduler.Explanation{Chosen: "http://a", PredictedCached: 48, ReportedCached: c.reported,
			Candidates: []scheduler.Candidate{{Endpoint: "http://b", EarlierBlocks: true},
				{Endpoint: "http://a", EarlierBlocks: c.earlier}}}
		if got := reportedText(e); got != c.want {
			t.Errorf("%v, %v: got %q, want %q", c.reported, c.earlier, got, c.want)
		}
	}
}
