package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/replay/scenario"
)

func tuneCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tune SCENARIO.yaml …",
		Short: "search the constants of a placement policy by replay, and say when the gain is noise",
		Long: "kvasir tune changes one constant at a time, keeps what improves the mean over the scenarios, and measures\n" +
			"the result again with seeds that the search has not used. Better is: more requests within the SLO (a\n" +
			"second, where all clients begin at once); one per cent of that outweighs ten per cent of the mean time\n" +
			"to the first token. A gain whose\n" +
			"95 % confidence interval contains 0 is noise, and reported so.\n\n" +
			"  kvasir tune examples/replay/tuning/*.yaml\n" +
			"  kvasir tune --policy lmetric,e2 examples/replay/tuning/*.yaml\n\n" +
			"Each line of the output is a policy with constants, as --against @FILE of kvasir replay takes it.",
		Args: cobra.MinimumNArgs(1),
	}
	f := &replayFlags{}
	f.common(c)
	names := c.Flags().StringSlice("policy", []string{scenario.ProductName}, "policies to tune; all = every peer")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := f.options()
		if err != nil {
			return err
		}
		cases, err := f.cases(args)
		if err != nil {
			return err
		}
		done, err := f.openProfile()
		if err != nil {
			return err
		}
		defer done()
		list, err := policyNames(*names)
		if err != nil {
			return exit(exitUsage, "%v", err)
		}
		bar := newProgress(os.Stderr)
		o.Progress = bar.show
		var all []*scenario.Tuned
		for _, name := range list {
			t, err := scenario.FindTunable(name, f.profile)
			if err != nil {
				return exit(exitUsage, "%v", err)
			}
			r, err := scenario.Tune(t, cases, o)
			bar.clear()
			if err != nil {
				return exit(exitNo, "%v", err)
			}
			all = append(all, r)
			if f.output == "text" {
				fmt.Fprintf(cmd.OutOrStdout(), "# %s: %s\n%s\n", name, verdict(r), r.Spec())
			}
		}
		if f.output == "json" {
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", " ")
			return e.Encode(all)
		}
		return nil
	}
	return c
}

// verdict describes the gain of a tuned policy.
func verdict(r *scenario.Tuned) string {
	percent := func(gain float64) float64 { return 100 * (math.Exp(gain) - 1) }
	text := fmt.Sprintf("%d sets of constants tried; gain %+.1f %% ± %.1f with other seeds", r.Tried, percent(r.Gain),
		100*r.CI)
	switch {
	case len(r.Set) == 0:
		return fmt.Sprintf("%d sets of constants tried; the defaults are the best", r.Tried)
	case r.Noise:
		return text + ": this is noise, keep the defaults"
	}
	return text
}
