package main

import (
	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host"
	"github.com/kvasir-router/kvasir/host/config"
)

func configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "check a configuration file, print its schema"}
	file := ""
	check := &cobra.Command{
		Use:   "check [FILE]",
		Short: "check a configuration and every file that it names",
		Long: `Checks a configuration file, with the line of each error, and then plans its
rules as a router does that starts or reloads: keys, certificates, issuers' keys,
secrets, tokenizers, plugins including pushed ones, drivers, and the policy with
its tests. It works on a copy of state_dir and connects to nothing: a router that
uses the file is not affected.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				file = args[0]
			}
			c, err := config.Load(file)
			if err == nil && len(c.Absent) > 0 {
				err = c.Absent
			}
			if err == nil {
				err = host.Check(c, host.Options{Version: version})
			}
			if err != nil {
				return &exitError{exitNo, err}
			}
			cmd.Println(file + ": ok")
			return nil
		},
	}
	check.Flags().StringVarP(&file, "config", "c", "kvasir.yaml", "configuration file")
	c.AddCommand(check, &cobra.Command{
		Use:   "schema",
		Short: "print the JSON Schema of the configuration file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := cmd.OutOrStdout().Write(config.Schema())
			return err
		},
	})
	return c
}
