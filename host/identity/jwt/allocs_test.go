//go:build !race

package jwt

import "testing"

func TestVerify_allocs(t *testing.T) {
	x := load(t)
	v := verifier(t, config(keyFile(t, x.JWKS)))
	token, now := []byte(x.Good["pyjwt rs256"]), x.now()
	v.Verify(token, now)
	if got := testing.AllocsPerRun(100, func() { v.Verify(token, now) }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}
