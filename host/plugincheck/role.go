package plugincheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// sizes are batches a role must answer, in this order: growing, then small
// again in the arena of a large one.
var sizes = []int{0, 1, 3, 7, 16, 17, 64, 1000, 4096, 5, 0, 64}

// checker runs the checks of one role.
type checker struct {
	ctx   context.Context
	p     *wasm.Plugin
	role  wasm.Role
	calls int
	rep   *Report
	a, b  *wasm.Tracer
}

func (c *checker) run() {
	var err error
	if c.a, err = c.p.NewTracer(c.ctx); !c.add("instance", err) {
		return
	}
	defer c.a.Close()
	if c.b, err = c.p.NewTracer(c.ctx); !c.add("second instance", err) {
		return
	}
	defer c.b.Close()
	if !c.add("sizes", c.sizes()) {
		return
	}
	c.add("poison behind n", c.poison())
	c.add("overwrite", c.overwrite())
	c.add("same twice", c.same(c.a, c.a))
	c.add("same on two instances", c.same(c.a, c.b))
	c.add("flags change nothing", c.flags())
	c.add("budget", c.budget())
	c.add("memory", c.memory())
	c.add("time", c.time())
}

func (c *checker) add(name string, err error) bool {
	return c.rep.add(c.role.String()+": "+name, err)
}

// call returns an empty trace if the plugin abstains.
func call(t *wasm.Tracer, r wasm.Role, b *wasm.Batch, poison bool) (*wasm.Trace, error) {
	tr, err := t.Call(r, b, poison)
	if errors.Is(err, wasm.ErrAbstain) {
		return &wasm.Trace{Overwritten: -1}, nil
	}
	return tr, err
}

func (c *checker) sizes() error {
	for i, n := range sizes {
		if _, err := call(c.a, c.role, wasm.SmokeBatch(n, uint64(i)), false); err != nil {
			return fmt.Errorf("%d candidates: %w", n, err)
		}
	}
	return nil
}

func (c *checker) poison() error {
	for _, n := range []int{0, 1, 7, 17, 100} {
		b := wasm.SmokeBatch(n, 3)
		clean, err := call(c.a, c.role, b, false)
		if err != nil {
			return err
		}
		dirty, err := call(c.a, c.role, b, true)
		if err != nil {
			return fmt.Errorf("%d candidates: %w", n, err)
		}
		if !slices.Equal(clean.Result, dirty.Result) {
			return fmt.Errorf("%d candidates: the result depends on elements behind n", n)
		}
	}
	return nil
}

func (c *checker) overwrite() error {
	for _, n := range []int{0, 1, 7, 64, 100} {
		tr, err := call(c.a, c.role, wasm.SmokeBatch(n, 4), false)
		if err != nil {
			return err
		}
		if tr.Overwritten >= 0 {
			return fmt.Errorf("%d candidates: byte %d of the batch is not the guest's to write", n, tr.Overwritten)
		}
	}
	return nil
}

// same calls with other batches in between: a result must depend on its batch only.
func (c *checker) same(first, second *wasm.Tracer) error {
	for _, n := range []int{1, 16, 64, 100} {
		x, err := call(first, c.role, wasm.SmokeBatch(n, 5), false)
		if err != nil {
			return err
		}
		if _, err := call(second, c.role, wasm.SmokeBatch(n+3, 6), false); err != nil {
			return err
		}
		y, err := call(second, c.role, wasm.SmokeBatch(n, 5), false)
		if err != nil {
			return err
		}
		if !slices.Equal(x.Result, y.Result) {
			return fmt.Errorf("%d candidates: results differ", n)
		}
		if x.Units != y.Units {
			return fmt.Errorf("%d candidates: results are equal, but fuel is %d and %d", n, x.Units, y.Units)
		}
	}
	return nil
}

func (c *checker) flags() error {
	b := wasm.SmokeBatch(33, 8)
	want, err := call(c.a, c.role, b, false)
	if err != nil {
		return err
	}
	for flags := uint32(1); flags < 8; flags++ {
		b.Flags = flags
		got, err := call(c.a, c.role, b, false)
		if err != nil {
			return fmt.Errorf("flags %d: %w", flags, err)
		}
		if !slices.Equal(got.Result, want.Result) {
			return fmt.Errorf("flags %d (explain %d, shadow %d, replay %d) change the result", flags, abi.FlagExplain,
				abi.FlagShadow, abi.FlagReplay)
		}
	}
	return nil
}

// budget checks that other values than those at load stay below half of the budget that
// was derived there.
func (c *checker) budget() error {
	for seed := range uint64(20) {
		for _, n := range []int{1, 64, 512} {
			tr, err := call(c.a, c.role, wasm.SmokeBatch(n, 100+seed), false)
			if err != nil {
				return err
			}
			if tr.Units > tr.Budget/2 {
				return fmt.Errorf("%d candidates used %d of %d units", n, tr.Units, tr.Budget)
			}
		}
	}
	return nil
}

// The check for growing memory makes defaultCalls calls, and fewer where they take
// longer than defaultCallsTime together.
const (
	defaultCalls     = 2000
	defaultCallsTime = 2 * time.Second
)

// memory checks that memory does not grow over many calls.
func (c *checker) memory() error {
	calls, end := c.calls, time.Time{}
	if calls == 0 {
		calls, end = c.affordable(), time.Now().Add(2*defaultCallsTime)
	}
	half := uint32(0)
	b := wasm.SmokeBatch(64, 9)
	for i := range calls {
		if i == calls/2 {
			half = c.a.MemoryBytes()
		}
		if _, err := call(c.a, c.role, b, false); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		if !end.IsZero() && time.Now().After(end) || c.ctx.Err() != nil {
			break // it became slow: the check of time reports that
		}
	}
	size := c.a.MemoryBytes()
	c.rep.MemoryBytes = max(c.rep.MemoryBytes, size)
	if size == c.a.MemoryLimit() {
		return fmt.Errorf("memory grew to the %d bytes it may have in %d calls", size, calls)
	}
	if half > 0 && size > half {
		return fmt.Errorf("memory grew from %d to %d bytes in the second half of %d calls", half, size, calls)
	}
	return nil
}

// affordable returns the default number of calls.
func (c *checker) affordable() int {
	began := time.Now()
	_, _ = call(c.a, c.role, wasm.SmokeBatch(64, 9), false) // a fault is found by the calls to come
	return max(100, min(defaultCalls, int(defaultCallsTime/max(1, time.Since(began)))))
}

// time checks that calls are still fast after all others.
func (c *checker) time() error {
	var took []time.Duration
	for i := range 7 {
		tr, err := call(c.a, c.role, wasm.SmokeBatch(64, uint64(200+i)), false)
		if err != nil {
			return err
		}
		took = append(took, tr.Took)
	}
	slices.Sort(took)
	if median, ceiling := took[len(took)/2], c.p.Ceiling(64); median > ceiling {
		return fmt.Errorf("a call with 64 candidates takes %v of processor time after many calls, at most %v",
			median.Round(time.Microsecond), ceiling)
	}
	return nil
}
