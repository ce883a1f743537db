package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestReload: the command says what changed, or the router's error.
func TestReload(t *testing.T) {
	status, answer := 200, `{"revision":7,"changed":["profiles[d].holdout: 0.005 → 0","plugin mine: aaaa → bbbb"]}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" || r.URL.Path != "/v1/reload" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s %s %s", r.Method, r.URL.Path, r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer s.Close()
	args := []string{"reload", "--admin", s.URL, "--token", "secret"}
	if out := mustRun(t, args...); out != "profiles[d].holdout: 0.005 → 0\nplugin mine: aaaa → bbbb\nin force: revision "+
		"7\n" {
		t.Errorf("got %q", out)
	}
	var m map[string]any
	if out := mustRun(t, append(args, "--output", "json")...); json.Unmarshal([]byte(out), &m) != nil ||
		m["revision"] != 7. {
		t.Errorf("got %q", out)
	}
	answer = `{"revision":8,"changed":[]}`
	if out := mustRun(t, args...); out != "nothing changed\nin force: revision 8\n" {
		t.Errorf("got %q", out)
	}
	status, answer = 422, `{"error":{"message":"kvasir.yaml:3: pools: unknown key"}}`
	if _, code, err := run(t, args...); code != exitNo || !strings.Contains(err.Error(), "kvasir.yaml:3: pools: unknown "+
		"key") {
		t.Errorf("code %d, %v", code, err)
	}
	s.Close()
	if _, code, err := run(t, args...); code != exitUnreachable || !strings.Contains(err.Error(), "no router at") {
		t.Errorf("code %d, %v", code, err)
	}
}
