package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func endpointCommand() *cobra.Command {
	c := &cobra.Command{Use: "endpoint", Short: "look at the endpoints of a running router, take them out of service and back"}
	list := &cobra.Command{Use: "list", Short: "list the endpoints with their state and load", Args: cobra.NoArgs}
	a, output := adminFlags(list), outputFlag(list)
	list.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		b, err := a.call("GET", "/v1/endpoints", nil)
		if err != nil {
			return err
		}
		if *output == "json" {
			return printJSON(cmd.OutOrStdout(), b)
		}
		var es []struct {
			URL, Pool, State, Events, Reason, Isolation string
			Trust, KVUsage                              float64
			Inflight, Running                           int
			Waiting, HeldBlocks                         int
			Figures                                     string `json:"figures_reason"`
			IsolationReason                             string `json:"isolation_reason"`
		}
		if err := json.Unmarshal(b, &es); err != nil {
			return fmt.Errorf("the router's answer: %w", err)
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 2, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ENDPOINT\tPOOL\tSTATE\tEVENTS\tTRUST\tISOLATION\tIN FLIGHT\tRUNNING\tWAITING\tKV USE\tREASON")
		for _, e := range es {
			if e.Reason == "" && e.Figures != "" {
				e.Reason = "figures unknown: " + e.Figures
			}
			if e.Reason == "" && e.IsolationReason != "" {
				e.Reason = "no isolation: " + e.IsolationReason
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.2f\t%s\t%d\t%d\t%d\t%.0f%%\t%s\n", e.URL, e.Pool, e.State, e.Events, e.Trust, e.Isolation, e.Inflight, e.Running, e.Waiting, 100*e.KVUsage, e.Reason)
		}
		return t.Flush()
	}
	c.AddCommand(list, holdCommand("cordon", "send it no conversations that are new to it"), holdCommand("drain", "send it no further requests; those it has go on"),
		holdCommand("uncordon", "let it serve again; also ends a revocation of its isolation"))
	return c
}

// holdCommand takes an endpoint out of service, or back.
func holdCommand(verb, short string) *cobra.Command {
	c := &cobra.Command{Use: verb + " URL", Short: short, Args: cobra.ExactArgs(1)}
	a := adminFlags(c)
	wait := c.Flags().Duration("wait", 0, "wait so long for its requests to end")
	if verb != "drain" {
		c.Flags().MarkHidden("wait")
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := a.call("POST", "/v1/endpoints/"+verb+"?endpoint="+url.QueryEscape(args[0]), nil); err != nil {
			return err
		}
		for end := time.Now().Add(*wait); *wait > 0; time.Sleep(200 * time.Millisecond) {
			n, err := a.inflight(args[0])
			switch {
			case err != nil:
				return err
			case n == 0:
				fmt.Fprintln(cmd.OutOrStdout(), args[0], "has no request")
				return nil
			case time.Now().After(end):
				return exit(exitNo, "%s still has %d requests", args[0], n)
			}
		}
		return nil
	}
	return c
}

// inflight is how many requests an endpoint has, in all pools.
func (a *adminClient) inflight(endpoint string) (n int, err error) {
	b, err := a.call("GET", "/v1/endpoints", nil)
	if err != nil {
		return 0, err
	}
	var es []struct {
		URL      string
		Inflight int
	}
	if err := json.Unmarshal(b, &es); err != nil {
		return 0, fmt.Errorf("the router's answer: %w", err)
	}
	for _, e := range es {
		if e.URL == strings.TrimRight(endpoint, "/") {
			n += e.Inflight
		}
	}
	return n, nil
}
