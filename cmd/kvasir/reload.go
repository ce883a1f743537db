package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func reloadCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "reload",
		Short: "have a running router read its configuration, keys, policy and plugins again",
		Long: `Has a running router read its configuration file, API keys, policy and plugins'
files again, and says what changed. A router that watches its files does so by
itself within half a second of a change; this waits for it and tells the error.
Where something is refused the rules before stay in force.`,
		Args: cobra.NoArgs,
	}
	a, output := adminFlags(c), outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		b, err := a.call("POST", "/v1/reload", nil)
		if err != nil {
			return err
		}
		if *output == "json" {
			return printJSON(cmd.OutOrStdout(), b)
		}
		var r struct {
			Generation uint64
			Changed    []string
		}
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("the router's answer: %w", err)
		}
		for _, line := range r.Changed {
			cmd.Println(line)
		}
		if len(r.Changed) == 0 {
			cmd.Println("nothing changed")
		}
		cmd.Printf("in force: generation %d\n", r.Generation)
		return nil
	}
	return c
}
