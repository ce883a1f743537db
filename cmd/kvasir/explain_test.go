package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
