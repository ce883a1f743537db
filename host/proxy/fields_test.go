package proxy

import "testing"

// TestValidID: a client's id is logged and kept, so a key that was sent as one is
// replaced.
func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"a-request": true, "4bf92f35-77b3-4da6-a3ce-929d0e0e4736": true, "": false, "a b": false,
		"kv_abcdefg2_abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst": false,
	} {
		if got := validID([]byte(id)); got != want {
			t.Errorf("%q: got %v", id, got)
		}
	}
}
