package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/statedir"
)

func keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "key", Short: "issue, list, show, rotate and revoke API keys",
		Long: "With --admin (or KVASIR_ADMIN) a running router makes the change, which is in force when the command\n" +
			"returns. Otherwise the command changes the key file, which a running router reads within a second: name the\n" +
			"router's configuration with -c, or the file with --file and the state_dir with --state-dir. The audit log\n" +
			"records both.\n\n" +
			"KEY is the id of a key, a whole key, its note, or NAME=VALUE of one of its labels.",
	}
	c.AddCommand(keyIssue(), keyList(), keyShow(), keyRotate(), keyRevoke())
	return c
}

// keyStore is what the key commands work on: a running router or the key file.
type keyStore interface {
	issue(q *admin.KeyRequest) (admin.IssuedKey, error)
	list() ([]identity.Record, error)
	rotate(ref string, grace time.Duration) (admin.IssuedKey, error)
	revoke(ref string) (revocation, error)
}

// revocation is the result of revoking a key.
type revocation struct {
	ID        string `json:"id"`
	State     string `json:"state"` // revoked
	File      string `json:"file,omitempty"`
	Router    string `json:"router,omitempty"` // that was asked
	Confirmed bool   `json:"confirmed"`        // a running router refuses the key
	Why       string `json:"why,omitempty"`    // it is not confirmed

	Accepted bool `json:"-"` // a running router still accepts the key
}

// keyFlags are the flags that every key command has.
type keyFlags struct {
	config, file, stateDir, auditLog, issuer string
	admin                                    *router
}

func (k *keyFlags) add(c *cobra.Command) {
	k.admin = routerFlags(c)
	c.Flags().StringVarP(&k.config, "config", "c", "", "the router's configuration file, which gives the defaults of "+
		"--file, --state-dir and --audit-log")
	c.Flags().StringVar(&k.file, "file", "", "API key file (identity.api_keys_file); default STATE_DIR/keys.json")
	c.Flags().StringVar(&k.stateDir, "state-dir", "/var/lib/kvasir", "the router's state_dir, which holds the key pepper")
	c.Flags().StringVar(&k.auditLog, "audit-log", "", "audit log (telemetry.audit_log.file); default STATE_DIR/audit.log")
}

// open returns the router if --admin was given, or KVASIR_ADMIN is set and no
// flag names a file.
func (k *keyFlags) open(c *cobra.Command) (keyStore, error) {
	changed := c.Flags().Changed
	onFile := changed("file") || changed("state-dir") || changed("config")
	switch {
	case changed("admin") && onFile:
		return nil, exit(exitUsage, "--admin changes the keys of a running router; -c, --file and --state-dir change a key "+
			"file: give one or the other")
	case changed("admin"), os.Getenv("KVASIR_ADMIN") != "" && !onFile:
		return routerKeys{k.admin}, nil
	}
	return k.openFile(changed("state-dir"))
}

// openFile returns the key file that the flags and the configuration name.
func (k *keyFlags) openFile(namedState bool) (*fileKeys, error) {
	f := &fileKeys{path: k.file, stateDir: k.stateDir, auditLog: k.auditLog, actor: "cli:" + whoami(), issuer: k.issuer,
		namedState: namedState}
	if os.Getenv("KVASIR_ADMIN") != "" {
		f.confirm = k.admin
	}
	if k.config != "" {
		if err := f.use(k.config); err != nil {
			return nil, err
		}
	}
	if f.issuer == "" {
		f.issuer = f.actor
	}
	f.path = keyName(f.path, f.stateDir, "keys.json")
	f.auditLog = statedir.AuditPath(f.auditLog, f.stateDir)
	return f, nil
}

// use takes from a configuration what no flag named.
func (f *fileKeys) use(file string) error {
	cfg, err := config.Read(file)
	if err != nil {
		return &exitError{exitNo, err}
	}
	if f.path == "" {
		f.path = cfg.Identity.APIKeysFile
	}
	if f.path == "" {
		return exit(exitNo, "%s has no identity.api_keys_file: add one, or name the file with --file", file)
	}
	if !f.namedState {
		f.stateDir, f.namedState = cfg.StateDir, true
	}
	if f.auditLog == "" {
		f.auditLog = cfg.Telemetry.AuditLog.File
	}
	if f.confirm == nil {
		f.confirm = routerOf(cfg)
	}
	return nil
}

// routerOf returns the admin API of the router that runs by a configuration on
// this machine, nil if its token cannot be read.
func routerOf(cfg *config.Config) *router {
	token, err := statedir.ReadAdminToken(cfg.Admin.TokenFile, cfg.StateDir)
	addr, port, splitErr := net.SplitHostPort(cfg.Admin.HTTP)
	if err != nil || splitErr != nil {
		return nil
	}
	if ip := net.ParseIP(addr); addr == "" || ip != nil && ip.IsUnspecified() {
		addr = "127.0.0.1"
	}
	return &router{url: "http://" + net.JoinHostPort(addr, port), token: token}
}

// oneKey returns the record if exactly one was found for ref.
func oneKey(found []identity.Record, ref string) (*identity.Record, error) {
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no key %q", identity.ShowRef(ref))
	case 1:
		return &found[0], nil
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return nil, fmt.Errorf("%q names %d keys (%s): give an id", identity.ShowRef(ref), len(found), strings.Join(ids, ", "))
}

// routerKeys is the keys of a running router.
type routerKeys struct{ *router }

func (r routerKeys) issue(q *admin.KeyRequest) (admin.IssuedKey, error) {
	return ask(r.router, admin.IssueKey, q)
}

func (r routerKeys) list() ([]identity.Record, error) {
	l, err := ask(r.router, admin.ListKeys, &admin.None{})
	return l.Keys, err
}

func (r routerKeys) rotate(ref string, grace time.Duration) (admin.IssuedKey, error) {
	return ask(r.router, admin.RotateKey, &admin.RotateRequest{Key: sendRef(ref), Grace: grace})
}

func (r routerKeys) revoke(ref string) (revocation, error) {
	k, err := ask(r.router, admin.RevokeKey, &admin.RevokeRequest{Key: sendRef(ref)})
	return revocation{ID: k.ID, State: k.State, Router: r.url, Confirmed: true}, err
}

// sendRef returns what is sent of a reference to a key: of a whole key the id
// alone.
func sendRef(ref string) string {
	if id := identity.KeyID(ref); id != "" {
		return id
	}
	return ref
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
	c.Flags().StringVar(&q.Tenant, "tenant", "", "tenant of the key")
	c.Flags().StringVar(&q.User, "user", "", "user within the tenant")
	c.Flags().StringSliceVar(&q.Groups, "group", nil, "group of the user, for policy; may be repeated")
	c.Flags().StringSliceVar(&q.Scopes, "scope", nil, "what the key may do beside calling models, such as plugin:push, "+
		"key:issue@acme or key:*; may be repeated")
	c.Flags().StringToStringVar(&q.Labels, "label", nil, "NAME=VALUE, for policy; may be repeated")
	c.Flags().StringVar(&q.Note, "note", "", "free text in the record")
	c.Flags().StringVar(&q.TTL, "ttl", "", "how long the key is valid, such as 720h; default: until it is revoked")
	c.Flags().StringVar(&k.issuer, "issuer", "", "issuer that is recorded with the key; default the user who runs the "+
		"command (with --admin always the holder of the token)")
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

// printKey prints a key to standard output, and its properties to standard error.
func printKey(cmd *cobra.Command, output string, k admin.IssuedKey) error {
	if output == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(k)
	}
	cmd.PrintErrf("key %s of tenant %s; it is not shown again\n", k.ID, k.Tenant)
	if k.Old != "" {
		cmd.PrintErrf("key %s ends %s\n", k.Old, k.OldEnds.Format(time.RFC3339))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), k.Key)
	return err
}

func keyList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "list the records of the keys, with their last use", Args: cobra.NoArgs}
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
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Tenant, r.User, r.Created.Format(time.RFC3339),
				r.Issuer, used, keyState(r), strings.Join(r.Scopes, ","), labelList(r.Labels))
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
	return "valid"
}

func labelList(m map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, name+"="+m[name])
	}
	return strings.Join(out, ",")
}

func keyShow() *cobra.Command {
	c := &cobra.Command{Use: "show KEY", Short: "show the record of a key as JSON", Args: cobra.ExactArgs(1)}
	var k keyFlags
	k.add(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := k.open(cmd)
		if err != nil {
			return err
		}
		keys, err := s.list()
		if err != nil {
			return err
		}
		r, err := oneKey(identity.Match(keys, args[0], nil, time.Now()), args[0])
		if err != nil {
			return exit(exitNo, "%v", err)
		}
		return printValue(cmd.OutOrStdout(), r)
	}
	return c
}

func keyRotate() *cobra.Command {
	c := &cobra.Command{
		Use: "rotate KEY", Args: cobra.ExactArgs(1),
		Short: "replace a key: issue a new one; the old one expires after a grace period",
		Long: "kvasir key rotate KEY issues a key with the tenant, user, groups, scopes and labels of KEY, prints it\n" +
			"once, and lets KEY expire after --grace, so that clients can switch. An expired key cannot be rotated.",
	}
	var k keyFlags
	k.add(c)
	grace := c.Flags().Duration("grace", 24*time.Hour, "how long the old key is still accepted; 0s = not at all")
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
	c := &cobra.Command{
		Use: "revoke KEY", Args: cobra.ExactArgs(1),
		Short: "revoke a key and say whether a running router refuses it",
		Long: "With --admin the router refuses the key when the command returns. Without it the command changes the key\n" +
			"file, and a running router refuses the key within a second; with -c, or with KVASIR_ADMIN set, the command\n" +
			"waits until the router of that configuration or address refuses it, and confirms that.\n\n" +
			"Exit code 0: the key is revoked, and no router was found that still accepts it. 1: it was not revoked, or a\n" +
			"running router still accepts it.",
	}
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
		r, err := s.revoke(args[0])
		if err != nil {
			return err
		}
		return printRevocation(cmd, *output, &r)
	}
	return c
}

// printRevocation reports whether a running router refuses the key, and where none
// confirmed that, how to be sure.
func printRevocation(cmd *cobra.Command, output string, r *revocation) error {
	if output == "json" {
		if err := json.NewEncoder(cmd.OutOrStdout()).Encode(r); err != nil {
			return err
		}
	} else if cmd.Println("revoked", r.ID); r.Confirmed {
		cmd.PrintErrf("confirmed: the router at %s refuses it\n", r.Router)
	} else {
		cmd.PrintErrf("not confirmed by a running router: %s.\nA router that uses %s refuses the key within a second. To "+
			"be sure, run\n"+
			"  kvasir key revoke %s --admin URL --token TOKEN\n", r.Why, r.File, r.ID)
	}
	if r.Accepted {
		return exit(exitNo, "key %s is revoked in %s, but a running router may still accept it: %s", r.ID, r.File, r.Why)
	}
	return nil
}
