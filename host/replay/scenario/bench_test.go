package scenario

import (
	"fmt"
	"testing"

	"github.com/kvasir-router/kvasir/host/replay"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// BenchmarkCompare is 12,000 requests on eight endpoints, by policy. The bound that is
// aimed at is two seconds.
func BenchmarkCompare(b *testing.B) {
	f := &File{Name: "bench", Engines: []Group{{Preset: "70b-4xh100", Count: 8}}}
	f.defaults("")
	w := &Workload{file: f, recorded: replay.RAG{Requests: 12_000, Rate: 3.4, Length: 4000}.Generate(1)}
	for _, name := range []string{ProductName, "smetric", "roundrobin"} {
		b.Run("policy="+name, func(b *testing.B) {
			p, err := ParsePolicy(name, scheduler.Profile{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Compare(f, w, []Policy{p}, Options{Seeds: []uint64{1}}); err != nil {
					b.Fatal(fmt.Errorf("%s: %w", name, err))
				}
			}
		})
	}
}
