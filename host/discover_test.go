package host

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/config"
)

// TestWithin: what is outside the allow-list is left out and named, a bounded
// number of it.
func TestWithin(t *testing.T) {
	d := &config.Discover{Allow: []string{"10.0.0.0/8", "*.gpu.example"}}
	in, err := within(d, []string{"http://10.1.2.3:1", "http://169.254.169.254:80", "http://a.gpu.example:1", "http://gpu.example:1", "http://10.1.2.3.evil.example:1"})
	if !slices.Equal(in, []string{"http://10.1.2.3:1", "http://a.gpu.example:1"}) || err == nil || !strings.Contains(err.Error(), "3 endpoints are not in discover.allow: http://169.254.169.254:80 ") {
		t.Errorf("%q, %v", in, err)
	}
	if in, err = within(d, slices.Repeat([]string{"http://h:1"}, 500)); in != nil || len(err.Error()) > 200 {
		t.Errorf("%q, %v", in, err)
	}
	if in, err = within(&config.Discover{}, []string{"http://h:1"}); len(in) != 1 || err != nil {
		t.Errorf("without a list: %q, %v", in, err)
	}
}
