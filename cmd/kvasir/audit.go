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
		Short: "check the hash chain and report the first broken line",
		Long: "kvasir audit verify STATE_DIR/audit.log checks that no line of the audit log was changed, removed, added\n" +
			"or moved since its first line. Rotated files beside it (audit.log.NUMBER) are checked first. If several\n" +
			"FILEs are given, exactly these are checked, in that order.\n\n" +
			"Whoever can write the file can cut off its end or compute a new chain, which the chain alone does not show.\n" +
			"Keep a head elsewhere (this command prints it; the router shows it in /v1/status and as the metrics\n" +
			"kvasir_audit_lines and kvasir_audit_head) and pass it as --anchor: the chain must contain it.",
		Args: cobra.MinimumNArgs(1),
	}
	anchor := c.Flags().String("anchor", "", "NUMBER:HASH of a line, kept elsewhere, that the log must contain")
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
				"files": files, "lines": v.Lines, "first": v.First.Seq + 1, "last": v.Head.Seq,
				"hash": hex.EncodeToString(v.Head.Hash[:]), "number": v.Head.Number(), "anchored": *anchor != "",
			})
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d lines in %d files are intact, %d to %d\nhead %s (kvasir_audit_head %d)\n",
			v.Lines, len(files), v.First.Seq+1, v.Head.Seq, v.Head, v.Head.Number())
		return err
	}
	return c
}

// auditFiles returns the files to check, in order. One file means the whole log:
// its rotated files come first.
func auditFiles(args []string) (files []string, whole bool, err error) {
	for _, a := range args {
		if _, err := os.Stat(a); errors.Is(err, fs.ErrNotExist) {
			return nil, false, fmt.Errorf("no audit log %q", a)
		}
	}
	if len(args) > 1 {
		return args, false, nil
	}
	archives, err := audit.Archives(args[0])
	return append(archives, args[0]), true, err
}

func verifyAll(v *audit.Verifier, files []string, whole bool) error {
	for _, f := range files {
		if err := v.File(f); err != nil {
			return err
		}
	}
	return v.Finish(files[0], whole)
}
