package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
)

func localityCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "locality",
		Short: "show how much cached prefixes count in placement, and what they give",
		Args:  cobra.NoArgs,
	}
	a, output := routerFlags(c), outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return show(cmd, a, *output, admin.GetLocality, &admin.None{}, printLocality)
	}
	c.AddCommand(localitySetCommand())
	return c
}

func localitySetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "set WEIGHT",
		Short: "make cached prefixes count less for a time, for every model",
		Long: "kvasir locality set makes cached prefixes count WEIGHT, from 0 to 1, times what the rules say, for a time.\n" +
			"A weight of 1 ends it. The change is in the audit log.",
		Args: cobra.ExactArgs(1),
	}
	a, output := routerFlags(c), outputFlag(c)
	in := c.Flags().Duration("for", time.Hour, "how long")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := strconv.ParseFloat(args[0], 64)
		if err != nil {
			return fmt.Errorf("weight %q: want a number from 0 to 1", args[0])
		}
		q := &admin.LocalityRequest{Weight: w}
		if w < 1 {
			q.Until = time.Now().Add(*in).UTC().Truncate(time.Second)
		}
		return show(cmd, a, *output, admin.SetLocality, q, printLocality)
	}
	return c
}

// prompts reports how many prompts of a model are computed.
func prompts(sampled bool) string {
	if sampled {
		return "sampled"
	}
	return "all"
}

func printLocality(w io.Writer, l *admin.Locality) error {
	if !l.Until.IsZero() {
		fmt.Fprintf(w, "an operator set weight %g until %s\n", l.Weight, l.Until.Local().Format(time.DateTime))
	}
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tWEIGHT\tLOWERED\tPROMPTS\tHIT\tAFTER LOSS")
	share := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f%%", 100**v)
	}
	for _, m := range l.Models {
		fmt.Fprintf(t, "%s\t%g\t%d\t%s\t%s\t%s\n", m.Model, m.Weight, m.Lowered, prompts(m.Sampled),
			share(m.Hit), share(m.Spared))
	}
	return t.Flush()
}
