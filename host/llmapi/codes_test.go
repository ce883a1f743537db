package llmapi

import "testing"

func TestCode_everyRowIsFilled(t *testing.T) {
	seen := map[string]bool{}
	for c := CodeUnset + 1; c < NumCodes; c++ {
		if c.String() == "" || c.Status() < 400 || c.Status() > 599 {
			t.Errorf("code %d has no whole row: %q, status %d", c, c, c.Status())
		}
		if seen[c.String()] {
			t.Errorf("two codes have the name %q", c)
		}
		seen[c.String()] = true
	}
}

func TestCode_unsetIsNoSuccess(t *testing.T) {
	for _, c := range []Code{CodeUnset, NumCodes, 255} {
		if c.Status() != 500 || c.String() != "" {
			t.Errorf("code %d: got status %d and name %q", c, c.Status(), c)
		}
	}
	if e := Refuse(CodeUnset, "x"); e.Status != 500 {
		t.Errorf("got %+v", e)
	}
}
