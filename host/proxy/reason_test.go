package proxy

import "testing"

func TestRetryReason_everyRowIsFilled(t *testing.T) {
	seen := map[string]bool{}
	for r := range numRetryReasons {
		if r.String() == "" || seen[r.String()] {
			t.Errorf("reason %d has no name of its own: %q", r, r)
		}
		seen[r.String()] = true
	}
}
