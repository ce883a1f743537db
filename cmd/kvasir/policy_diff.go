package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/policy"
)

// diffFor bounds an offline comparison.
const diffFor = 10 * time.Minute

func policyDiff() *cobra.Command {
	c := &cobra.Command{
		Use:   "diff NEWDIR",
		Short: "show which decisions a new policy would change",
		Long: "kvasir policy diff NEWDIR has a running router evaluate NEWDIR for recent requests. It changes nothing.\n" +
			"kvasir policy diff NEWDIR --old DIR --inputs FILE compares two directories over a file of input documents,\n" +
			"one per line.\n" +
			"Exit code 1: NEWDIR would be refused, or, with --exit-code, a decision would change.",
		Args: cobra.ExactArgs(1),
	}
	a, output := routerFlags(c), outputFlag(c)
	var settings policyFlags
	settings.add(c)
	old := c.Flags().String("old", "", "directory of the policy to compare with, instead of a running router's")
	inputs := c.Flags().String("inputs", "", "file with input documents, one per line; requires --old")
	strict := c.Flags().Bool("exit-code", false, "exit with 1 if a decision would change")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		if (*old == "") != (*inputs == "") {
			return exit(exitUsage, "--old DIR and --inputs FILE go together")
		}
		d, err := diffOf(a, &settings, *old, args[0], *inputs)
		if err != nil {
			return err
		}
		if *output == "json" {
			err = printValue(cmd.OutOrStdout(), d)
		} else {
			err = printDiff(cmd.OutOrStdout(), d)
		}
		if changed := d.Compared - d.Same; err == nil && *strict && changed > 0 {
			err = exit(exitNo, "%d decisions would change", changed)
		}
		return err
	}
	return c
}

// diffOf compares the policy in dir with that of a running router, or with the one
// in old over the inputs in file.
func diffOf(a *router, f *policyFlags, old, dir, file string) (*policy.Diff, error) {
	if old == "" {
		files, err := policyFiles(dir, f.dataDir)
		if err != nil {
			return nil, err
		}
		return ask(a, admin.DiffPolicy, &admin.PolicyDiffRequest{Files: files})
	}
	return diffOffline(f, old, dir, file)
}

func diffOffline(f *policyFlags, old, dir, file string) (*policy.Diff, error) {
	inputs, err := readInputs(file)
	if err != nil {
		return nil, exit(exitUsage, "%v", err)
	}
	before, err := f.load(old, true)
	if err != nil {
		return nil, err
	}
	after, err := f.load(dir, false)
	if err != nil {
		return nil, err
	}
	return policy.Compare(before, after, inputs, diffFor), nil
}

func readInputs(file string) (out []*policy.Input, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		in, err := policy.ParseInput(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		out = append(out, in)
	}
	return out, lines.Err()
}

func printDiff(w io.Writer, d *policy.Diff) error {
	fmt.Fprintf(w, "%s → %s: %d inputs compared, %d with the same decision", d.From, d.To, d.Compared, d.Same)
	if d.Skipped > 0 {
		fmt.Fprintf(w, ", %d skipped for lack of time", d.Skipped)
	}
	fmt.Fprintf(w, "; p99 %.0f µs\n", d.P99Micros)
	for _, k := range []struct {
		n    int
		text string
	}{
		{d.AllowToDeny, "allowed before, denied now"},
		{d.DenyToAllow, "denied before, allowed now"},
		{d.Widened, "cache shared more widely"},
		{d.Namespace, "another cache namespace"},
		{d.Constraints, "other endpoints"},
		{d.Other, "other limits, priority, profile or reason"},
		{d.Errors, "no decision now"},
	} {
		if k.n > 0 {
			fmt.Fprintf(w, "%6d %s\n", k.n, k.text)
		}
	}
	for _, c := range d.Changes {
		if _, err := fmt.Fprintf(w, "\n%s\n  input  %s\n  before %s\n  after  %s\n", c.Kind, c.Input, c.Before,
			c.After); err != nil {
			return err
		}
	}
	return nil
}
