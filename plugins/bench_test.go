package plugins_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// twelveColumns are those of testdata/twelve.c, in its order.
var twelveColumns = [12]int{abi.ColMatchedTokens, abi.ColMatchedRatio, abi.ColUncachedTokens,
	abi.ColOutstandingUncachedTokens,
	abi.ColInflight, abi.ColKVActiveTokens, abi.ColRunning, abi.ColWaiting, abi.ColKVUsage, abi.ColIndexTrust,
	abi.ColAgeMS, abi.ColSpeed}

// twelveWeights are those of testdata/twelve.c.
var twelveWeights = [11]float32{0.5, 2, -0.25, -0.125, -3, -0.01, -1.5, 4, -8, 4, -0.001}

// twelve is testdata/twelve.c in Go, every product and sum rounded.
func twelve(c *[12][]float32, w *[11]float32, out []float32) {
	n := len(out)
	c0, c1, c2, c3, c4, c5 := c[0][:n], c[1][:n], c[2][:n], c[3][:n], c[4][:n], c[5][:n]
	c6, c7, c8, c9, c10, c11 := c[6][:n], c[7][:n], c[8][:n], c[9][:n], c[10][:n], c[11][:n]
	for i := range out {
		a := float32(float32(float32(c0[i]*w[0])+float32(c1[i]*w[1])) + float32(float32(c2[i]*w[2])+float32(c3[i]*w[3])))
		d := float32(float32(float32(c4[i]*w[4])+float32(c5[i]*w[5])) +
			float32(float32(c6[i]*w[6])-float32(c7[i]/float32(c7[i]+w[7]))))
		e := float32(float32(float32(c8[i]*w[8])+float32(c9[i]*w[9])) + float32(c10[i]*w[10]))
		s := float32(float32(a+d) + e)
		out[i] = float32(s * c11[i])
	}
}

func loadFile(t testing.TB, file string) *wasm.Plugin {
	t.Helper()
	code, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := wasm.New(context.Background(), wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Load(context.Background(), code, wasm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func twelveBatch(n int) (*wasm.Batch, *[12][]float32) {
	b := wasm.SmokeBatch(n, 7)
	var c [12][]float32
	for i, id := range twelveColumns {
		c[i] = b.Columns[id]
	}
	return b, &c
}

func TestTwelve_native(t *testing.T) {
	for _, file := range []string{"twelve.wasm", "twelve_simd.wasm"} {
		p := loadFile(t, file)
		for _, n := range []int{0, 1, 15, 64, 1000, 4096} {
			b, c := twelveBatch(n)
			got, want := make([]float32, n), make([]float32, n)
			twelve(c, &twelveWeights, want)
			if err := p.Score(b, got, nil); err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%s: candidate %d of %d: got %v, want %v", file, i, n, got[i], want[i])
				}
			}
		}
	}
}

// TestScore_allocations: a call allocates nothing.
func TestScore_allocations(t *testing.T) {
	p := loadFile(t, "twelve.wasm")
	b, _ := twelveBatch(64)
	scores := make([]float32, 64)
	if got := testing.AllocsPerRun(1000, func() {
		if err := p.Score(b, scores, nil); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("%v allocations per call, want 0", got)
	}
}

// cpu returns the processor time of this thread: other work on the machine
// does not count.
func cpu(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// compare runs native and guest in turn and reports processor time per call
// and the ratio, medians over the turns.
func compare(b *testing.B, n int, native, guest func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const turns = 9
	calls := max(20, 400_000/(n+40))
	var nat, gst, ratio []float64
	for b.Loop() {
		for range turns {
			t0 := cpu(b)
			for range calls {
				native()
			}
			t1 := cpu(b)
			for range calls {
				guest()
			}
			t2 := cpu(b)
			x, y := float64(t1-t0)/float64(calls), float64(t2-t1)/float64(calls)
			nat, gst, ratio = append(nat, x), append(gst, y), append(ratio, y/x)
		}
	}
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(nat), "native-ns")
	b.ReportMetric(median(gst), "wasm-ns")
	b.ReportMetric(median(ratio), "x")
}

var benchSizes = []int{8, 64, 512, 4096}

// BenchmarkTwelve measures write and call of a scorer of 12 columns beside
// the same scorer in Go.
func BenchmarkTwelve(b *testing.B) {
	for _, kind := range []struct{ name, file string }{{"scalar", "twelve.wasm"}, {"simd", "twelve_simd.wasm"}} {
		p := loadFile(b, kind.file)
		for _, n := range benchSizes {
			batch, cols := twelveBatch(n)
			out := make([]float32, n)
			b.Run(fmt.Sprintf("%s/n=%d", kind.name, n), func(b *testing.B) {
				compare(b, n, func() { twelve(cols, &twelveWeights, out) }, func() {
					if err := p.Score(batch, out, nil); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

// BenchmarkLeastWork measures the default cost, as a plugin beside native.
func BenchmarkLeastWork(b *testing.B) {
	p := load(b, "leastwork", wasm.Options{})
	builtin := scheduler.NewLeastWork(scheduler.Blend)
	for _, n := range benchSizes {
		bb := newBatches(n, rand.New(rand.NewPCG(1, 2)))
		out := make([]float32, n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			compare(b, n, func() { _ = builtin.Score(&bb.native) }, func() {
				if err := p.Score(&bb.guest, out, nil); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
