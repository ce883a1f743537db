package fleet

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/policy"
)

// TestAdmission_noPolicy: without a policy to ask no endpoint joins, and those of
// the pool stay.
func TestAdmission_noPolicy(t *testing.T) {
	asked := true
	a := &Admission{Policy: func() (bool, *policy.Snapshot) { return asked, nil }}
	urls, had := []string{"http://a:1", "http://b:1"}, []string{"http://a:1"}
	in, err := a.admitted(&config.Pool{Name: "p"}, urls, had)
	if err == nil || !slices.Equal(in, had) {
		t.Errorf("without a policy: %q, %v", in, err)
	}
	asked = false
	if in, err := a.admitted(&config.Pool{Name: "p"}, urls, had); err != nil || len(in) != 2 {
		t.Errorf("where policy is not asked: %q, %v", in, err)
	}
}

// TestWithin: endpoints outside the allow-list are left out, and a bounded number
// of them is named.
func TestWithin(t *testing.T) {
	d := &config.Discover{Allow: []string{"10.0.0.0/8", "*.gpu.example"}}
	in, err := within(d, []string{"http://10.1.2.3:1", "http://169.254.169.254:80", "http://a.gpu.example:1",
		"http://gpu.example:1", "http://10.1.2.3.evil.example:1"})
	if !slices.Equal(in, []string{"http://10.1.2.3:1", "http://a.gpu.example:1"}) || err == nil ||
		!strings.Contains(err.Error(), "3 endpoints are not in discover.allow: http://169.254.169.254:80 ") {
		t.Errorf("%q, %v", in, err)
	}
	if in, err = within(d, slices.Repeat([]string{"http://h:1"}, 500)); in != nil || len(err.Error()) > 200 {
		t.Errorf("%q, %v", in, err)
	}
	if in, err = within(&config.Discover{}, []string{"http://h:1"}); len(in) != 1 || err != nil {
		t.Errorf("without a list: %q, %v", in, err)
	}
}
