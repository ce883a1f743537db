package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/plugincheck"
	"github.com/kvasir-router/kvasir/host/plugsign"
)

func pluginCheck() *cobra.Command {
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "check a plugin as a router does before it accepts a push",
		Long: "Loads the module and calls each of its roles with batches of many sizes. It fails if a result depends on\n" +
			"more than the batch, if the module writes outside the result, if its memory grows, or if a call takes too\n" +
			"much fuel or time. A router refuses a push for the same reasons.\nExit code 1: a check failed.",
		Args: cobra.ExactArgs(1),
	}
	config := c.Flags().String("config", "", "JSON for the plugin, or @FILE")
	calls := c.Flags().Int("calls", 0, "calls of the memory check; default 2,000; 100,000 find a slow leak")
	call := c.Flags().Duration("call", 0,
		"processor time limit of a call with 64 candidates, as plugins[].limits.call; default 2ms")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		code, err := readModule(args[0])
		if err != nil {
			return err
		}
		conf, err := readConfig(*config)
		if err != nil {
			return err
		}
		rep, err := plugincheck.Check(cmd.Context(), code, plugincheck.Options{Config: conf, Grants: allModules,
			Calls: *calls, CallTime: *call})
		if err != nil {
			return exit(exitNo, "%s: %v", args[0], err)
		}
		if *output == "json" {
			err = printValue(cmd.OutOrStdout(), struct {
				OK   bool     `json:"ok"`
				Keys []string `json:"signature_keys,omitempty"`
				*plugincheck.Report
			}{rep.OK(), signatureKeys(code), rep})
		} else {
			_, err = fmt.Fprint(cmd.OutOrStdout(), rep, summary(rep, signatureKeys(code)))
		}
		if err == nil && !rep.OK() {
			err = exit(exitNo, "%s: %s", args[0], failures(rep))
		}
		return err
	}
	return c
}

// readConfig returns JSON given as text or as @FILE.
func readConfig(v string) ([]byte, error) {
	path, ok := strings.CutPrefix(v, "@")
	if !ok {
		return []byte(v), nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, exit(exitUsage, "--config: %v", err)
	}
	return b, nil
}

// signatureKeys returns the ids of the keys in the signatures of a module. Only a router
// that has the keys can verify them.
func signatureKeys(code []byte) (ids []string) {
	_, signatures, err := plugsign.Split(code)
	if err != nil {
		return nil
	}
	for _, s := range signatures {
		ids = append(ids, s.ID)
	}
	return ids
}

// summary describes the checked plugin in one line.
func summary(r *plugincheck.Report, keys []string) string {
	if r.Name == "" {
		return ""
	}
	s := fmt.Sprintf("%s %s (%s): %s; %d bytes, %.0f units of fuel per candidate, %d KiB of memory",
		r.Name, r.Version, short(r.Digest), strings.Join(r.Roles, ", "), r.Bytes, r.UnitsPerCandidate, r.MemoryBytes>>10)
	if len(r.Imports) > 0 {
		s += "; needs grants: " + strings.Join(r.Imports, ", ")
	}
	if len(keys) > 0 {
		s += "; signatures (not verified) by key " + strings.Join(keys, ", ")
	}
	return s + "\n"
}

// failures lists the failed checks.
func failures(r *plugincheck.Report) string {
	var names []string
	for _, x := range r.Results {
		if !x.OK {
			names = append(names, x.Name)
		}
	}
	return fmt.Sprintf("%d of %d checks failed: %s", len(names), len(r.Results), strings.Join(names, ", "))
}
