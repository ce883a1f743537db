//go:build !race

package identity

import (
	"net/netip"
	"testing"
)

// Under the race detector sync.Pool drops what it holds, so this test is not
// part of that build.
func TestAuthenticate_allocs(t *testing.T) {
	k := &KeyFile{Version: 1}
	key, _ := issue(t, k, "acme")
	s := newStore(t, Config{Pepper: pepper}, "", k)
	for _, key := range []string{key, "wrong"} {
		c := Credentials{Authorization: []byte("Bearer " + key), Remote: netip.MustParseAddr("192.0.2.1")}
		if got := testing.AllocsPerRun(100, func() { s.Authenticate(&c) }); got != 0 {
			t.Errorf("%.3s: got %v allocations, want 0", key, got)
		}
	}
}
