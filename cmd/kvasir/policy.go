package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/policy"
)

func policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "check and test a policy, explain its decisions, compare it with a new one",
		Long: "A policy is a directory with *.rego, schemas, capabilities.json, and the tenants' data in data.\n" +
			"kvasir policy init DIR writes the policy that ships with the router; policy: {dir: DIR} in the configuration " +
			"uses it.",
	}
	c.AddCommand(policyInit(), policyCheck(), policyTest(), policyExplain(), policyDiff(), policyStatus(), policyReload(),
		policyPush())
	return c
}

// policyFlags are settings of a policy that otherwise come from a configuration.
type policyFlags struct {
	dataDir  string
	required []string
	public   bool
}

func (f *policyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.dataDir, "data-dir", "", "policy.data_dir; default DIR/data")
	c.Flags().StringSliceVar(&f.required, "required-labels", []string{"pool"}, "policy.required_labels")
	c.Flags().BoolVar(&f.public, "allow-public-scope", false, "policy.allow_public_scope")
}

// load loads the policy in dir. Its namespaces differ from a router's, since it has
// another key.
func (f *policyFlags) load(dir string, noTests bool) (*policy.Snapshot, error) {
	s, err := policy.Open(dir, f.dataDir, policy.Config{Key: make([]byte, policy.KeyBytes), RequiredLabels: f.required,
		AllowPublicScope: f.public, NoTests: noTests})
	if err != nil {
		return nil, &exitError{exitNo, err}
	}
	return s, nil
}

func policyCheck() *cobra.Command {
	c := &cobra.Command{
		Use:   "check DIR",
		Short: "load a policy as a router would: compile it with its schemas, check its data, run its tests",
		Long:  "Prints every error with file, line and suggested fix. Exit code 1: a router would refuse the policy.",
		Args:  cobra.ExactArgs(1),
	}
	var f policyFlags
	f.add(c)
	output := outputFlag(c)
	least := c.Flags().Float64("min-coverage", 0, "percentage of the rules' lines that the tests must cover")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		s, err := f.load(args[0], false)
		var report policyReport
		if err == nil {
			err = report.fill(s)
		}
		faults, isFaults := errors.AsType[policy.Faults](err)
		switch {
		case err == nil:
			report.OK = true
		case isFaults:
			report.Faults = faults
		default:
			return err
		}
		if report.OK && report.Coverage < *least {
			report.OK = false
			report.Faults = policy.Faults{{What: fmt.Sprintf("the tests cover %.1f %% of the lines", report.Coverage),
				Fix: fmt.Sprintf("add tests, up to %.1f %%", *least)}}
		}
		if *output == "json" {
			err = printValue(cmd.OutOrStdout(), report)
		} else {
			err = report.print(cmd.OutOrStdout(), args[0])
		}
		if err == nil && !report.OK {
			err = exit(exitNo, "%s: %d errors", args[0], len(report.Faults))
		}
		return err
	}
	return c
}

// policyReport is the result of a check.
type policyReport struct {
	OK       bool          `json:"ok"`
	Faults   policy.Faults `json:"faults"`
	Revision string        `json:"revision,omitempty"`
	Inputs   []string      `json:"inputs,omitempty"`
	Tests    int           `json:"tests"`
	Coverage float64       `json:"coverage"`
}

// fill describes a policy that loads. The error says why the coverage of its tests
// is unknown.
func (r *policyReport) fill(s *policy.Snapshot) (err error) {
	r.Revision, r.Inputs, r.Tests, r.Faults = s.Revision(), s.Inputs(), s.Tests(), policy.Faults{}
	_, r.Coverage, err = s.Test()
	return err
}

func (r *policyReport) print(w io.Writer, dir string) error {
	if len(r.Faults) > 0 {
		_, err := fmt.Fprintln(w, r.Faults.Error())
		return err
	}
	_, err := fmt.Fprintf(w, "%s: ok, revision %s, %d tests passed and cover %.1f %% of the rules' lines\ndecisions "+
		"depend on:\n", dir, r.Revision, r.Tests, r.Coverage)
	for _, in := range r.Inputs {
		fmt.Fprintln(w, "  "+in)
	}
	return err
}

func policyTest() *cobra.Command {
	c := &cobra.Command{
		Use:   "test DIR",
		Short: "run a policy's own tests with the router's engine",
		Long:  "Exit code 1: a test failed.",
		Args:  cobra.ExactArgs(1),
	}
	var f policyFlags
	f.add(c)
	output := outputFlag(c)
	verbose := c.Flags().BoolP("verbose", "v", false, "list passed tests too")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		s, err := f.load(args[0], true)
		if err != nil {
			return err
		}
		results, coverage, err := s.Test()
		if err != nil {
			return &exitError{exitNo, err}
		}
		failed := 0
		for _, r := range results {
			if !r.Passed && !r.Skipped {
				failed++
			}
		}
		if *output == "json" {
			err = printValue(cmd.OutOrStdout(), map[string]any{"tests": results, "failed": failed, "coverage": coverage})
		} else {
			err = printTests(cmd.OutOrStdout(), results, *verbose, coverage)
		}
		if err == nil && failed > 0 {
			err = exit(exitNo, "%d of %d tests failed", failed, len(results))
		}
		return err
	}
	return c
}

func printTests(w io.Writer, results []policy.TestResult, verbose bool, coverage float64) error {
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	for _, r := range results {
		word := "pass"
		switch {
		case r.Skipped:
			word = "skip"
		case !r.Passed:
			word = "FAIL"
		}
		if verbose || word != "pass" {
			fmt.Fprintf(t, "%s\t%s:%d\t%s\t%s\n", word, r.File, r.Line, r.Name, r.Fault)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d tests cover %.1f %% of the rules' lines\n", len(results), coverage)
	return err
}

func policyStatus() *cobra.Command {
	c := &cobra.Command{Use: "status", Short: "show which policy is in force in a running router, and why a newer one " +
		"was refused", Args: cobra.NoArgs}
	a := routerFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return show(cmd, a, "json", admin.GetPolicy, &admin.None{}, nil)
	}
	return c
}

func policyReload() *cobra.Command {
	c := &cobra.Command{Use: "reload", Short: "have a running router put its policy's directory in force at once",
		Args: cobra.NoArgs}
	a := routerFlags(c)
	force := forceFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := ask(a, admin.ReloadPolicy, &admin.PolicyReloadRequest{Force: *force})
		return printState(cmd, p, err)
	}
	return c
}

func forceFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("force", false, "ignore policy.gates, which limit how many live decisions may change")
}

func policyPush() *cobra.Command {
	c := &cobra.Command{
		Use:   "push DIR",
		Short: "put the policy in DIR in force in a running router, until its own directory changes or is reloaded",
		Long: "The router loads, tests and compares DIR as it does its own directory. If it refuses DIR, the previous\n" +
			"policy stays in force. A pushed policy survives a restart.",
		Args: cobra.ExactArgs(1),
	}
	a := routerFlags(c)
	dataDir := c.Flags().String("data-dir", "", "data of the policy; default DIR/data")
	force := forceFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		files, err := policyFiles(args[0], *dataDir)
		if err != nil {
			return err
		}
		p, err := ask(a, admin.PushPolicy, &admin.PolicyPushRequest{Force: *force, Files: files})
		return printState(cmd, p, err)
	}
	return c
}

// policyFiles reads the files of a policy.
func policyFiles(dir, dataDir string) (map[string][]byte, error) {
	src, err := policy.ReadDir(dir, dataDir)
	if err != nil {
		return nil, &exitError{exitNo, err}
	}
	return src.Files(), nil
}

// printState prints which policy is in force after a change.
func printState(cmd *cobra.Command, p *admin.PolicyStatus, err error) error {
	if err != nil {
		return err
	}
	cmd.Printf("%s: revision %s from %s\n", p.State, p.Revision, p.Source)
	return nil
}
