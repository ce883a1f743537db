package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host"
	"github.com/kvasir-router/kvasir/host/identity"
)

func keyCommand() *cobra.Command {
	c := &cobra.Command{Use: "key", Short: "issue, list and revoke API keys"}
	c.AddCommand(keyIssue(), keyList(), keyRevoke())
	return c
}

// keyFlags are the flags that every key command has.
type keyFlags struct{ file, stateDir string }

func (k *keyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&k.file, "file", "", "API key file (identity.api_keys_file); default STATE_DIR/keys.json")
	c.Flags().StringVar(&k.stateDir, "state-dir", "/var/lib/kvasir", "the router's state_dir, which holds the key pepper")
}

func (k *keyFlags) path() string {
	if k.file != "" {
		return k.file
	}
	return filepath.Join(k.stateDir, "keys.json")
}

func keyIssue() *cobra.Command {
	c := &cobra.Command{Use: "issue", Short: "issue a key for a tenant and print it, once", Args: cobra.NoArgs}
	var k keyFlags
	k.add(c)
	tenant := c.Flags().String("tenant", "", "tenant the key stands for")
	user := c.Flags().String("user", "", "user within the tenant")
	issuer := c.Flags().String("issuer", "", "who issues it, for the record")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		if !identity.ValidTenant(*tenant) {
			return exit(exitUsage, "--tenant %q: want 1 to 128 letters, digits and ._@:/+-", *tenant)
		}
		pepper, err := host.KeyPepper(k.stateDir)
		if err != nil {
			return exit(exitNo, "%v", err)
		}
		var key string
		var rec identity.Record
		err = identity.Update(k.path(), func(f *identity.KeyFile) (err error) {
			key, rec, err = f.Issue(pepper, identity.Grant{Tenant: *tenant, User: *user}, *issuer, time.Now())
			return err
		})
		if err != nil {
			return exit(exitNo, "%v", err)
		}
		if *output == "json" {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"id": rec.ID, "key": key, "tenant": *tenant})
		}
		cmd.PrintErrf("key %s of tenant %s; it is shown this once\n", rec.ID, *tenant)
		_, err = fmt.Fprintln(cmd.OutOrStdout(), key)
		return err
	}
	return c
}

func keyList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "list the keys; never the keys themselves", Args: cobra.NoArgs}
	var k keyFlags
	k.add(c)
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		f, err := identity.ReadFile(k.path())
		if errors.Is(err, fs.ErrNotExist) {
			f, err = &identity.KeyFile{Version: 1}, nil
		}
		if err != nil {
			return exit(exitNo, "%v", err)
		}
		if *output == "json" {
			for i := range f.Keys {
				f.Keys[i].MAC = ""
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(f.Keys)
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 2, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ID\tTENANT\tUSER\tCREATED\tSTATE")
		for _, r := range f.Keys {
			state := "in force"
			switch {
			case !r.Revoked.IsZero():
				state = "revoked " + r.Revoked.Format(time.RFC3339)
			case !r.Expires.IsZero():
				state = "until " + r.Expires.Format(time.RFC3339)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.ID, r.Tenant, r.User, r.Created.Format(time.RFC3339), state)
		}
		return t.Flush()
	}
	return c
}

func keyRevoke() *cobra.Command {
	c := &cobra.Command{Use: "revoke ID", Short: "revoke a key; a running router obeys at once", Args: cobra.ExactArgs(1)}
	var k keyFlags
	k.add(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		err := identity.Update(k.path(), func(f *identity.KeyFile) error { return f.Revoke(args[0], time.Now()) })
		if err != nil {
			return exit(exitNo, "%s: %v", args[0], err)
		}
		cmd.Println("revoked", args[0])
		return nil
	}
	return c
}
