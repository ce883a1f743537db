package scheduler

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkLanes places requests from many goroutines over one pool or over
// eight, of 64 endpoints each: with the built-in, and with a scorer that takes
// 20 µs, as a plugin may.
func BenchmarkLanes(b *testing.B) {
	slow := scoring{"slow", CostTokens, func(x *Batch) error {
		for end := time.Now().Add(20 * time.Microsecond); time.Now().Before(end); {
		}
		return NewLeastWork(Blend).Score(x)
	}}
	for _, scorer := range []string{"builtin", "slow"} {
		for _, lanes := range []int{1, 8} {
			for _, threads := range []int{1, 8, 32} {
				b.Run(fmt.Sprintf("scorer=%s/lanes=%d/threads=%d", scorer, lanes, threads), func(b *testing.B) {
					r := newRig(b, 0, func(sc *StateConfig, c *Config) {
						sc.Locality = Locality{Index: quiet{}, Predictor: quiet{}}
						c.Models, c.Pools = nil, nil
						for i := range lanes {
							pool := fmt.Sprint("p", i)
							c.Pools = append(c.Pools, Pool{Name: pool})
							c.Models = append(c.Models, Model{Name: fmt.Sprint("m", i), Pools: []PoolRef{{Pool: pool}}})
						}
						if scorer == "slow" {
							c.Profiles[0].Scorers = []Weighted{{slow, 1, false}}
						}
					})
					for i := range 64 * lanes {
						r.add(fmt.Sprint("e", i, ":1"), fmt.Sprint("p", i%lanes), nil)
					}
					var next atomic.Int64
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
					b.ResetTimer()
					b.RunParallel(func(pb *testing.PB) {
						g := int(next.Add(1))
						req := &Request{ID: fmt.Sprint("req-", g), Principal: r.tenant, API: r.request(words(1, 200)).API}
						req.API.Model = fmt.Sprint("m", g%lanes)
						for pb.Next() {
							p, err := r.sched.Schedule(req)
							if err != nil {
								b.Error(err)
								return
							}
							p.FirstToken()
							p.Done(ok200)
						}
					})
				})
			}
		}
	}
}
