package main

import (
	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/config"
)

func configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "check a configuration file, print its schema"}
	file := ""
	check := &cobra.Command{
		Use:   "check [FILE]",
		Short: "say every fault of a configuration file, with its line",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				file = args[0]
			}
			c, err := config.Load(file)
			if err == nil && len(c.Absent) > 0 {
				err = c.Absent
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
