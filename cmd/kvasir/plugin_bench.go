package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// benched is the cost of a call of a plugin. Times are medians, in ns.
type benched struct {
	Name       string  `json:"name"`
	Role       string  `json:"role"`
	Candidates int     `json:"candidates"`
	Columns    int     `json:"columns"`
	CallNS     float64 `json:"call_ns"`   // write the columns, call, read the result
	NativeNS   float64 `json:"native_ns"` // the built-in scorer in Go, its columns, no copy
	Ratio      float64 `json:"ratio"`     // median of the ratios of alternating runs
	Fuel       int64   `json:"fuel"`
	Budget     int64   `json:"budget"` // fuel a call of this size may use
	LoadMS     float64 `json:"load_ms"`
}

func pluginBench() *cobra.Command {
	c := &cobra.Command{Use: "bench FILE", Short: "compare the time of a call with the built-in scorer in Go",
		Args: cobra.ExactArgs(1)}
	n := c.Flags().IntP("candidates", "n", 64, "endpoints per call, 1 to 4096")
	config := c.Flags().String("config", "", "JSON for the plugin, or @FILE")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		if *n < 1 || *n > abi.MaxCandidates {
			return exit(exitUsage, "--candidates %d: want 1 to %d", *n, abi.MaxCandidates)
		}
		code, err := readModule(args[0])
		if err != nil {
			return err
		}
		conf, err := readConfig(*config)
		if err != nil {
			return err
		}
		r, err := benchPlugin(cmd.Context(), code, conf, *n)
		if err != nil {
			return exit(exitNo, "%s: %v", args[0], err)
		}
		if *output == "json" {
			return printValue(cmd.OutOrStdout(), r)
		}
		return r.print(cmd.OutOrStdout())
	}
	return c
}

func (r *benched) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s %s, %d candidates, %d columns, loaded in %.0f ms\n"+
		"  call     %8.0f ns   (%.1f ns per candidate; columns written, result read)\n"+
		"  native   %8.0f ns   (the built-in least-work scorer in Go: %.1f times less)\n"+
		"  fuel     %8d      (of %d a call of this size may use)\n",
		r.Name, r.Role, r.Candidates, r.Columns, r.LoadMS, r.CallNS, r.CallNS/float64(r.Candidates), r.NativeNS, r.Ratio,
		r.Fuel, r.Budget)
	return err
}

// hotRole returns the first role that is called per request.
func hotRole(p *wasm.Plugin) (wasm.Role, error) {
	for _, r := range []wasm.Role{wasm.Score, wasm.Filter, wasm.Pick} {
		if p.Has(r) {
			return r, nil
		}
	}
	return 0, errors.New("has none of the roles score, filter and pick")
}

func benchPlugin(ctx context.Context, code, config []byte, n int) (*benched, error) {
	start := time.Now()
	p, done, err := loadModule(ctx, code, wasm.Options{Config: config, Instances: 1})
	if err != nil {
		return nil, err
	}
	defer done()
	r := &benched{Name: p.Name(), Candidates: n, LoadMS: float64(time.Since(start).Microseconds()) / 1000}
	role, err := hotRole(p)
	if err != nil {
		return nil, err
	}
	r.Role, r.Columns = role.String(), len(p.Manifest().Roles[role].Columns)
	b := wasm.SmokeBatch(n, 7)
	if err := r.fuel(ctx, p, role, b); err != nil {
		return nil, err
	}
	r.compare(nativeCall(b), guestCall(p, role, b), &err)
	return r, err
}

// fuel measures one call.
func (r *benched) fuel(ctx context.Context, p *wasm.Plugin, role wasm.Role, b *wasm.Batch) error {
	t, err := p.NewTracer(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	tr, err := t.Call(role, b, false)
	if errors.Is(err, wasm.ErrAbstain) {
		return errors.New("abstains on the batch of the measurement")
	}
	if err != nil {
		return err
	}
	r.Fuel, r.Budget = tr.Units, tr.Budget
	return nil
}

// guestCall returns one call of the plugin.
func guestCall(p *wasm.Plugin, role wasm.Role, b *wasm.Batch) func() error {
	switch role {
	case wasm.Filter:
		drops := make([]uint32, b.N)
		return func() error { return p.Filter(b, drops) }
	case wasm.Pick:
		o := wasm.SmokeOrder(b)
		return func() error { return p.Pick(b, o) }
	}
	scores := make([]float32, b.N)
	return func() error { return p.Score(b, scores, nil) }
}

// nativeCall returns one call of the built-in scorer with the same values.
func nativeCall(b *wasm.Batch) func() error {
	c := &b.Columns
	native := &scheduler.Batch{
		N: b.N, PromptTokens: b.PromptTokens, MaxTokens: b.MaxTokens, Seed: b.Seed, NowMS: b.NowMS,
		Uncached: c[abi.ColUncachedTokens], Outstanding: c[abi.ColOutstandingUncachedTokens],
		Inflight: c[abi.ColInflight], KVActive: c[abi.ColKVActiveTokens], Speed: c[abi.ColSpeed],
		Delay:  c[abi.ColDecodeDelayTokens],
		Scores: make([]float32, b.N),
	}
	leastWork := scheduler.NewLeastWork(scheduler.Blend)
	return func() error { return leastWork.Score(native) }
}

// compare alternates both, so that other load on the machine affects both.
func (r *benched) compare(native, guest func() error, err *error) {
	const turns = 15
	calls := max(20, 400_000/(r.Candidates+40))
	var nat, gst, ratio []float64
	for range turns {
		x, y := timed(native, calls, err), timed(guest, calls, err)
		if *err != nil {
			return
		}
		nat, gst, ratio = append(nat, x), append(gst, y), append(ratio, y/x)
	}
	r.NativeNS, r.CallNS, r.Ratio = median(nat), median(gst), median(ratio)
}

// timed returns ns per call.
func timed(f func() error, calls int, err *error) float64 {
	start := time.Now()
	for range calls {
		if e := f(); e != nil {
			*err = e
			break
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(calls)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
