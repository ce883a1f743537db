package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
)

func reloadCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "reload",
		Short: "have a running router read its configuration, keys, policy and plugins again",
		Long: `Has a running router read its configuration file, API keys, policy and plugin
files again, and says what changed. A router that watches its files does so by
itself within half a second of a change; this waits for it and prints the error.
If a change is refused, the previous rules stay in force, except for credentials
that the files revoke: these are refused at once. A change that requires a restart
is printed and does not hold up the others.`,
		Args: cobra.NoArgs,
	}
	a, output := routerFlags(c), outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return show(cmd, a, *output, admin.Reload, &admin.None{}, printReload)
	}
	return c
}

func printReload(w io.Writer, r *admin.ReloadResult) error {
	for _, line := range r.Withdrawn {
		fmt.Fprintln(w, "withdrawn:", line)
	}
	for _, line := range r.Changed {
		fmt.Fprintln(w, line)
	}
	if len(r.Changed) == 0 {
		fmt.Fprintln(w, "nothing changed")
	}
	for _, line := range r.Restart {
		fmt.Fprintln(w, "waits for a restart:", line)
	}
	_, err := fmt.Fprintf(w, "in force: revision %d\n", r.Revision)
	return err
}
