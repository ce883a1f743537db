package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

func auditCommand() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "check the log of who changed what"}
	c.AddCommand(auditVerify())
	return c
}

func auditVerify() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify FILE...",
		Short: "check the hash chain and name the first line that is broken",
		Long: "kvasir audit verify STATE_DIR/audit.log checks that no line of the audit log was changed, removed, added or moved, from\n" +
			"its first line on: files that were put away beside it (audit.log.NUMBER) are checked before it. Several FILEs are checked\n" +
			"in the order they are named in, and nothing beside them.\n\n" +
			"Who may write the file can cut off its end or compute all of it anew, and the chain alone does not tell. Keep a head\n" +
			"elsewhere (it is printed here, and shown by the router's /v1/status and as the metrics kvasir_audit_lines and\n" +
			"kvasir_audit_head) and give it as --anchor: the chain must hold it.",
		Args: cobra.MinimumNArgs(1),
	}
	anchor := c.Flags().String("anchor", "", "NUMBER:HASH of a line, kept elsewhere, that must be there unchanged")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		var v audit.Verifier
		if *anchor != "" {
			var err error
			if v.Anchor, err = audit.ParseHead(*anchor); err != nil {
				return exit(exitUsage, "--anchor: %v", err)
			}
		}
		files, whole, err := auditFiles(args)
		if err != nil {
			return exit(exitUsage, "%v", err)
		}
		if err := verifyAll(&v, files, whole); err != nil {
			return exit(exitNo, "%v", err)
		}
		if *output == "json" {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
				"files": files, "lines": v.Lines, "first": v.First.Seq + 1, "last": v.Head.Seq, "hash": hex.EncodeToString(v.Head.Hash[:]),
				"number": v.Head.Number(), "anchored": *anchor != "",
			})
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d lines in %d files are sound, %d to %d\nhead %s (kvasir_audit_head %d)\n", v.Lines, len(files), v.First.Seq+1, v.Head.Seq, v.Head, v.Head.Number())
		return err
	}
	return c
}

// auditFiles returns the files to check, in order. One file stands for the
// whole log: those put away beside it come first.
func auditFiles(args []string) (files []string, whole bool, err error) {
	for _, a := range args {
		if _, err := os.Stat(a); errors.Is(err, fs.ErrNotExist) {
			return nil, false, fmt.Errorf("there is no audit log %s", a)
		}
	}
	if len(args) > 1 {
		return args, false, nil
	}
	away, err := audit.Archives(args[0])
	return append(away, args[0]), true, err
}

func verifyAll(v *audit.Verifier, files []string, whole bool) error {
	for _, f := range files {
		if err := v.File(f); err != nil {
			return err
		}
	}
	return v.Finish(files[0], whole)
}
