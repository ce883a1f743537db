package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/autoscale"
)

func autoscaleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "autoscale",
		Short: "show what the autoscaler of a running router measures, proposes and does",
		Args:  cobra.NoArgs,
	}
	a, output := routerFlags(c), outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return show(cmd, a, *output, admin.GetAutoscale, &admin.None{}, func(w io.Writer, all []autoscale.Status) error {
			if len(all) == 0 {
				fmt.Fprintln(w, "no pool is scaled: add an autoscale section to one (kvasir config schema)")
			}
			for i := range all {
				printScaling(w, &all[i])
			}
			return nil
		})
	}
	c.AddCommand(noticeCommand())
	return c
}

// printScaling prints the status of one group: measurements, proposal, pools and
// actions.
func printScaling(w io.Writer, s *autoscale.Status) {
	var names []string
	for i := range s.Pools {
		names = append(names, s.Pools[i].Name)
	}
	if len(names) == 0 {
		fmt.Fprintln(w, "a group of pools has not been measured yet")
		return
	}
	fmt.Fprintf(w, "pool %s, measured at %s\n", strings.Join(names, ", overflow "), s.Time.Local().Format(time.TimeOnly))
	p := &s.Proposal
	fmt.Fprintf(w, "work      %.2f endpoint-seconds a second, growing by %.2f within a cold start of %v\n", p.Rate, p.Lead,
		p.Cold)
	fmt.Fprintf(w, "backlog   %.1f s accepted, %.1f s more after a cold start; %d requests in flight\n", s.Signal.Backlog,
		p.Ahead, s.Signal.InFlight)
	fmt.Fprintf(w, "needed    %d endpoints; within the window %d; proposed %d (%s)\n", p.Wish, p.Window, p.Desired,
		p.Reason)
	switch {
	case s.Fault != "":
		fmt.Fprintf(w, "plugin    failed %d times, the built-in size is used: %s\n", s.Faults, s.Fault)
	case s.Override != nil && s.Shadow:
		fmt.Fprintf(w, "plugin    %s would have %d (%s); in shadow, not followed\n", s.Override.By, s.Override.Desired,
			s.Override.Reason)
	case s.Override != nil:
		fmt.Fprintf(w, "plugin    %s: %d (%s)\n", s.Override.By, s.Override.Desired, s.Override.Reason)
	}
	dry := ""
	if s.DryRun {
		dry = "; dry run, nothing is ordered"
	}
	fmt.Fprintf(w, "decided   %d endpoints; capacity %s%s\n", s.Desired, s.Capacity, dry)
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POOL\tREADY\tPENDING\tDRAINING\tFAILING\tMIN\tMAX\tCOLD START\tDRIVER")
	for i := range s.Pools {
		o := &s.Pools[i]
		driver := "ok"
		if o.DriverError != "" {
			driver = o.DriverError
		} else if o.BlockedUntil != nil {
			driver = "machines did not become ready; next attempt at " + o.BlockedUntil.Local().Format(time.TimeOnly)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", o.Name, o.Ready, o.Pending, o.Draining, o.Failing, o.Min,
			o.Max, o.ColdStart, driver)
	}
	t.Flush()
	for _, a := range s.Actions {
		fmt.Fprintf(w, "%s  %-8s %-8s %d %s  %.200s\n", a.Time.Local().Format(time.TimeOnly), a.Pool, a.Verb, a.N,
			strings.Join(a.IDs, " "), a.Reason)
	}
	fmt.Fprintln(w)
}

func noticeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "notice POOL ENDPOINT",
		Short: "announce that the machine of an endpoint will be terminated: the endpoint drains at once",
		Long: "kvasir autoscale notice is for the termination hook of a spot market.\n" +
			"ENDPOINT is the driver's id of the machine, or its URL.",
		Args: cobra.ExactArgs(2),
	}
	a := routerFlags(c)
	in := c.Flags().Duration("in", 2*time.Minute, "time until the machine is terminated")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		n := &admin.Notice{Pool: args[0], Endpoint: args[1], Deadline: time.Now().Add(*in).UTC().Truncate(time.Second)}
		return show(cmd, a, "json", admin.GiveNotice, n, nil)
	}
	return c
}
