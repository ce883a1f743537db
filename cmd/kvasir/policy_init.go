package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/policies"
)

func policyInit() *cobra.Command {
	c := &cobra.Command{
		Use:   "init DIR",
		Short: "write the policy that ships with the router to a new directory",
		Long: "Writes rules with their tests, schemas, and data of two tenants. An example adds its rules and data:\n" +
			strings.Join(policies.Examples(), ", ") + ".",
		Args: cobra.ExactArgs(1),
	}
	examples := c.Flags().StringSlice("example", nil, "an example to add; may be repeated")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := os.Stat(args[0]); !errors.Is(err, fs.ErrNotExist) {
			return exit(exitNo, "%s exists already", args[0])
		}
		if err := writePolicies(args[0], *examples...); err != nil {
			return exit(exitNo, "%v", err)
		}
		cmd.Println(args[0] + ": edit data/tenants, then kvasir policy check " + args[0])
		return nil
	}
	return c
}

// writePolicies writes the policy that ships, with examples added, to dir.
func writePolicies(dir string, examples ...string) error {
	files, err := policies.Files(examples...)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}
