package plugins

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// TestAdapter_large_stress: a guest without memory for the largest batch of the ABI is
// called by several decisions at once, between small batches. Each large call fails with
// the guest's fault or is skipped; no small one returns a wrong score; and the plugin
// answers again once its breaker closes.
func TestAdapter_large_stress(t *testing.T) {
	code, err := (&guests.Guest{File: "alloc_large"}).Code()
	if err != nil {
		t.Fatal(err)
	}
	table := openTable(t)
	ctx, cancel := context.WithCancel(context.Background())
	var background, callers sync.WaitGroup
	background.Go(func() { _ = table.runtime.Run(ctx) }) // ends with ctx
	defer background.Wait()
	defer cancel()
	c := config.Plugin{Name: "large"}
	p, err := table.acquire(context.Background(), keyOf(&c, moduleOf(fromFile, code, nil).digest, ""), fromFile, code,
		time.Now(), trialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.release([]*plugin{p})
	small := func(s scorer) error {
		b := fill(t, 5)
		if err := s.Score(b); err != nil {
			return err
		}
		for i := range b.Scores {
			if b.Scores[i] != -b.Waiting[i] {
				t.Errorf("candidate %d: got %v, want %v", i, b.Scores[i], -b.Waiting[i])
			}
		}
		return nil
	}
	// notCalled reports whether err means that the plugin was not called.
	notCalled := func(err error) bool {
		return errors.Is(err, wasm.ErrBusy) || strings.HasPrefix(err.Error(), "quarantined: ")
	}
	for range 4 {
		callers.Go(func() {
			s := scorer{newAdapter(p, &config.Config{}, 0, "blend")}
			large := fill(t, abi.MaxCandidates)
			for range 50 {
				err := s.Score(large)
				if f, ok := errors.AsType[*wasm.Fault](err); err == nil || ok && f.Reason != wasm.ReasonAlloc || !ok &&
					!notCalled(err) {
					t.Errorf("4,096 candidates: got %v", err)
				}
				if err := small(s); err != nil && !notCalled(err) {
					t.Errorf("5 candidates: %v", err)
				}
			}
		})
	}
	callers.Wait()
	if st := p.Stats(); st.Faults[wasm.ReasonAlloc] < 3 {
		t.Errorf("%d faults, want those that open the breaker: %+v", st.Faults[wasm.ReasonAlloc], st)
	}
	s, now := scorer{newAdapter(p, &config.Config{}, 0, "blend")}, time.Now()
	for range 20 {
		if small(s) == nil {
			return
		}
		if next := table.runtime.Maintain(ctx, now); next.After(now) {
			now = next
		}
	}
	t.Errorf("it is never asked again: %v", small(s))
}
