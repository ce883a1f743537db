package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
)

func endpointCommand() *cobra.Command {
	c := &cobra.Command{Use: "endpoint",
		Short: "show the endpoints of a running router, take them out of service and back"}
	list := &cobra.Command{Use: "list", Short: "list the endpoints with their state and load", Args: cobra.NoArgs}
	a, output := routerFlags(list), outputFlag(list)
	list.RunE = func(cmd *cobra.Command, args []string) error {
		return show(cmd, a, *output, admin.ListEndpoints, &admin.None{}, printEndpoints)
	}
	c.AddCommand(list, holdCommand("cordon", admin.Cordon, "send the endpoint no new conversations"),
		holdCommand("drain", admin.Drain, "send the endpoint no further requests; requests in progress continue"),
		holdCommand("uncordon", admin.Uncordon, "return the endpoint to service; also ends a revocation of its isolation"))
	return c
}

func printEndpoints(w io.Writer, es []admin.Endpoint) error {
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ENDPOINT\tPOOL\tSTATE\tEVENTS\tTRUST\tISOLATION\tIN FLIGHT\tRUNNING\tWAITING\tKV USE\tREASON")
	for i := range es {
		e := &es[i]
		reason := e.Reason
		switch {
		case reason != "":
		case e.FiguresWhy != "":
			reason = "figures unknown: " + e.FiguresWhy
		case e.IsolationWhy != "":
			reason = "no isolation: " + e.IsolationWhy
		case e.EventsReason != "":
			reason = "events: " + e.EventsReason
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.2f\t%s\t%d\t%d\t%d\t%.0f%%\t%s\n",
			e.URL, e.Pool, e.State, e.Events, e.Trust, e.Isolation, e.Inflight, e.Running, e.Waiting, 100*e.KVUsage, reason)
	}
	return t.Flush()
}

// holdCommand takes an endpoint out of service, or back.
func holdCommand(verb string, o admin.Operation[admin.HoldRequest, *admin.HoldResult], short string) *cobra.Command {
	c := &cobra.Command{Use: verb + " URL", Short: short, Args: cobra.ExactArgs(1)}
	a := routerFlags(c)
	wait := c.Flags().Duration("wait", 0, "how long to wait for its requests to end")
	if verb != "drain" {
		c.Flags().MarkHidden("wait")
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := ask(a, o, &admin.HoldRequest{Endpoint: args[0]}); err != nil {
			return err
		}
		for end := time.Now().Add(*wait); *wait > 0; time.Sleep(200 * time.Millisecond) {
			n, err := a.inflight(args[0])
			switch {
			case err != nil:
				return err
			case n == 0:
				fmt.Fprintln(cmd.OutOrStdout(), args[0], "has no requests")
				return nil
			case time.Now().After(end):
				return exit(exitNo, "%s still has %d requests", args[0], n)
			}
		}
		return nil
	}
	return c
}

// inflight returns the requests in flight on an endpoint, in all pools.
func (a *router) inflight(endpoint string) (n int64, err error) {
	es, err := ask(a, admin.ListEndpoints, &admin.None{})
	if err != nil {
		return 0, err
	}
	for i := range es {
		if es[i].URL == strings.TrimRight(endpoint, "/") {
			n += es[i].Inflight
		}
	}
	return n, nil
}
