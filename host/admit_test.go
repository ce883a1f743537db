package host

import (
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/host/config"
)

// TestAdmit: without a policy to ask nobody gets in, and who is in stays.
func TestAdmit(t *testing.T) {
	h := &Host{}
	h.fleet = &fleet{h: h, found: map[string][]string{"p": {"http://a:1"}}}
	g := &generation{cfg: &config.Config{Pools: []config.Pool{{Name: "p"}}, Policy: config.Policy{AdmitEndpoints: true}}}
	h.rules.Swap(g, func(*generation) {})
	may, err := h.admit("p", []string{"http://a:1", "http://b:1"})
	if err == nil || !slices.Equal(may, []string{"http://a:1"}) {
		t.Errorf("without a policy: %q, %v", may, err)
	}
	open := &generation{cfg: &config.Config{Pools: []config.Pool{{Name: "p"}}}}
	h.rules.Swap(open, func(*generation) {})
	if may, err := h.admit("p", []string{"http://a:1", "http://b:1"}); err != nil || len(may) != 2 {
		t.Errorf("where policy is not asked: %q, %v", may, err)
	}
}
