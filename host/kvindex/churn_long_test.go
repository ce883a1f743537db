//go:build long

package kvindex

import "testing"

// TestChurn_long is steady state at full size: 100 M block operations on 2 M
// pairs, with room for all of them and with half of the bytes they need.
func TestChurn_long(t *testing.T) {
	for _, budget := range []int64{60_000_000, 26_000_000} {
		x := New(Config{Holders: 64, BudgetBytes: budget})
		err := churn(x, 2_000_000, 100_000_000, func(done int, c *churned) {
			s := x.Stats()
			t.Logf("%d M ops: %.2f of %.2f MB, %.2f M pairs of %.2f M, evicted %.1f M, orphans %.3f M, lookups find %.1f %%",
				done/1e6, float64(s.Bytes)/1e6, float64(budget)/1e6, float64(s.Pairs)/1e6, float64(c.held)/1e6,
				float64(s.Evicted)/1e6, float64(s.Orphans)/1e6, 100*float64(c.found)/float64(c.want))
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := check(x); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkFill_long is BenchmarkFill at ten million pairs.
func BenchmarkFill_long(b *testing.B) { benchmarkFill(b, 10_000_000, 235_000_000) }
