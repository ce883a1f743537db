package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/identity"
)

func keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "key", Short: "issue, list, rotate and revoke API keys",
		Long: "With --admin (or KVASIR_ADMIN) a running router does it: what it does is in force when the command returns. Else the\n" +
			"key file is changed, which a running router sees within a second. Both are recorded in the audit log.",
	}
	c.AddCommand(keyIssue(), keyList(), keyRotate(), keyRevoke())
	return c
}

// keyStore is where the key commands do their work: a running router or the
// key file.
type keyStore interface {
	issue(q *admin.KeyRequest) (admin.IssuedKey, error)
	list() ([]identity.Record, error)
	rotate(id string, grace time.Duration) (admin.IssuedKey, error)
	revoke(id string) error
}

// keyFlags are the flags that every key command has.
type keyFlags struct {
	file, stateDir, auditLog, issuer string
	admin                            *adminClient
}

func (k *keyFlags) add(c *cobra.Command) {
	k.admin = adminFlags(c)
	c.Flags().StringVar(&k.file, "file", "", "API key file (identity.api_keys_file); default STATE_DIR/keys.json")
	c.Flags().StringVar(&k.stateDir, "state-dir", "/var/lib/kvasir", "the router's state_dir, which holds the key pepper")
	c.Flags().StringVar(&k.auditLog, "audit-log", "", "audit log (telemetry.audit_log.file); default STATE_DIR/audit.log")
}

// open returns the router if --admin was given, or KVASIR_ADMIN is set and no
// flag names a file.
func (k *keyFlags) open(c *cobra.Command) (keyStore, error) {
	onFile := c.Flags().Changed("file") || c.Flags().Changed("state-dir")
	switch {
	case c.Flags().Changed("admin") && onFile:
		return nil, exit(exitUsage, "say either --admin, or --file and --state-dir")
	case c.Flags().Changed("admin"), os.Getenv("KVASIR_ADMIN") != "" && !onFile:
		return routerKeys{k.admin}, nil
	}
	return newFileKeys(k)
}

// routerKeys is the keys of a running router.
type routerKeys struct{ *adminClient }

func (r routerKeys) do(method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return exit(exitUsage, "%v", err)
		}
	}
	b, err := r.call(method, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("the router's answer: %w", err)
	}
	return nil
}

func (r routerKeys) issue(q *admin.KeyRequest) (k admin.IssuedKey, err error) {
	return k, r.do("POST", "/v1/keys", q, &k)
}

func (r routerKeys) list() ([]identity.Record, error) {
	var out struct{ Keys []identity.Record }
	return out.Keys, r.do("GET", "/v1/keys", nil, &out)
}

func (r routerKeys) rotate(id string, grace time.Duration) (k admin.IssuedKey, err error) {
	return k, r.do("POST", "/v1/keys/"+url.PathEscape(id)+"/rotate?grace="+grace.String(), nil, &k)
}

func (r routerKeys) revoke(id string) error {
	return r.do("POST", "/v1/keys/"+url.PathEscape(id)+"/revoke", nil, new(map[string]string))
}

// keyName completes a path of the state directory.
func keyName(file, dir, name string) string {
	if file != "" {
		return file
	}
	return filepath.Join(dir, name)
}

func keyIssue() *cobra.Command {
	c := &cobra.Command{Use: "issue", Short: "issue a key for a tenant and print it, once", Args: cobra.NoArgs}
	var k keyFlags
	k.add(c)
	var q admin.KeyRequest
	c.Flags().StringVar(&q.Tenant, "tenant", "", "tenant the key stands for")
	c.Flags().StringVar(&q.User, "user", "", "user within the tenant")
	c.Flags().StringSliceVar(&q.Groups, "group", nil, "group of the user, for policy; may be repeated")
	c.Flags().StringSliceVar(&q.Scopes, "scope", nil, "what the key may do beside asking models, such as plugin:push or key:*; may be repeated")
	c.Flags().StringToStringVar(&q.Labels, "label", nil, "NAME=VALUE, for policy; may be repeated")
	c.Flags().StringVar(&q.Note, "note", "", "free text in the record")
	c.Flags().StringVar(&q.TTL, "ttl", "", "how long it is valid, such as 720h; default until it is revoked")
	c.Flags().StringVar(&k.issuer, "issuer", "", "who issues it, for the record; default the caller (with --admin always)")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		if err := q.Check(); err != nil {
			return exit(exitUsage, "%v", err)
		}
		s, err := k.open(cmd)
		if err != nil {
			return err
		}
		key, err := s.issue(&q)
		if err != nil {
			return err
		}
		return printKey(cmd, *output, key)
	}
	return c
}

// printKey prints a key to standard output and what is to be known of it beside.
func printKey(cmd *cobra.Command, output string, k admin.IssuedKey) error {
	if output == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(k)
	}
	cmd.PrintErrf("key %s of tenant %s; it is shown this once\n", k.ID, k.Tenant)
	if k.Old != "" {
		cmd.PrintErrf("key %s ends %s\n", k.Old, k.OldEnds.Format(time.RFC3339))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), k.Key)
	return err
}

func keyList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "list the keys with their last use; never the keys themselves", Args: cobra.NoArgs}
	var k keyFlags
	k.add(c)
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		s, err := k.open(cmd)
		if err != nil {
			return err
		}
		keys, err := s.list()
		if err != nil {
			return err
		}
		if *output == "json" {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(keys)
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 2, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ID\tTENANT\tUSER\tCREATED\tISSUER\tLAST USE\tSTATE\tSCOPES\tLABELS")
		for i := range keys {
			r := &keys[i]
			used := "never"
			if !r.LastUse.IsZero() {
				used = r.LastUse.Format(time.RFC3339)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Tenant, r.User, r.Created.Format(time.RFC3339), r.Issuer, used, keyState(r), strings.Join(r.Scopes, ","), labelList(r.Labels))
		}
		return t.Flush()
	}
	return c
}

func keyState(r *identity.Record) string {
	switch {
	case !r.Revoked.IsZero():
		return "revoked " + r.Revoked.Format(time.RFC3339)
	case r.Ended(time.Now()):
		return "expired " + r.Expires.Format(time.RFC3339)
	case !r.Expires.IsZero():
		return "until " + r.Expires.Format(time.RFC3339)
	}
	return "in force"
}

func labelList(m map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, name+"="+m[name])
	}
	return strings.Join(out, ",")
}

func keyRotate() *cobra.Command {
	c := &cobra.Command{
		Use: "rotate ID", Short: "issue the successor of a key, which is accepted for a while yet", Args: cobra.ExactArgs(1),
		Long: "kvasir key rotate ID issues a key with the tenant, user, groups, scopes and labels of key ID, prints it once, and lets\n" +
			"key ID end after --grace: clients change over meanwhile. A key that has ended has no successor.",
	}
	var k keyFlags
	k.add(c)
	grace := c.Flags().Duration("grace", 24*time.Hour, "how long the old key is accepted; 0s = no longer")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		if *grace < 0 {
			return exit(exitUsage, "--grace %v: want a time such as 24h", *grace)
		}
		s, err := k.open(cmd)
		if err != nil {
			return err
		}
		key, err := s.rotate(args[0], *grace)
		if err != nil {
			return err
		}
		return printKey(cmd, *output, key)
	}
	return c
}

func keyRevoke() *cobra.Command {
	c := &cobra.Command{Use: "revoke ID", Short: "revoke a key", Args: cobra.ExactArgs(1),
		Long: "With --admin the router refuses the key from the moment the command returns. On the file a running router sees it\nwithin a second."}
	var k keyFlags
	k.add(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := k.open(cmd)
		if err != nil {
			return err
		}
		if err := s.revoke(args[0]); err != nil {
			return err
		}
		cmd.Println("revoked", args[0])
		return nil
	}
	return c
}
