package fleet

import (
	"fmt"
	"testing"

	"github.com/kvasir-router/kvasir/host/config"
)

// BenchmarkApply changes the labels of all endpoints of a full router.
func BenchmarkApply(b *testing.B) {
	f := newTestFleet(b)
	var urls []string
	for i := range config.MaxEndpoints {
		urls = append(urls, fmt.Sprintf("http://10.0.0.1:%d", 1000+i))
	}
	p := mainPool(urls...)
	n := 0
	for b.Loop() {
		n++
		p.Labels = map[string]string{"n": fmt.Sprint(n)}
		f.apply(p)
	}
}
