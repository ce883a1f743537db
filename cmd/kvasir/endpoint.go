package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func endpointCommand() *cobra.Command {
	c := &cobra.Command{Use: "endpoint", Short: "look at the endpoints of a running router"}
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
			URL, Pool, Events, Reason, Isolation string
			Ready                                bool
			Trust, KVUsage                       float64
			Inflight, Running                    int
			Waiting, HeldBlocks                  int
		}
		if err := json.Unmarshal(b, &es); err != nil {
			return fmt.Errorf("the router's answer: %w", err)
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 2, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ENDPOINT\tPOOL\tREADY\tEVENTS\tTRUST\tISOLATION\tIN FLIGHT\tRUNNING\tWAITING\tKV USE\tREASON")
		for _, e := range es {
			fmt.Fprintf(t, "%s\t%s\t%t\t%s\t%.2f\t%s\t%d\t%d\t%d\t%.0f%%\t%s\n", e.URL, e.Pool, e.Ready, e.Events, e.Trust, e.Isolation, e.Inflight, e.Running, e.Waiting, 100*e.KVUsage, e.Reason)
		}
		return t.Flush()
	}
	c.AddCommand(list)
	return c
}
