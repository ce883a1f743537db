package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/wasm"
)

func pluginCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin",
		Short: "write, build, check and push placement plugins",
		Long: "A placement plugin is a WebAssembly module that scores, filters or orders the endpoints of a request.\n\n" +
			"  kvasir plugin new my-scorer --lang go\n  cd my-scorer\n  kvasir plugin build\n  kvasir plugin check " +
			"my-scorer.wasm\n  kvasir plugin push my-scorer.wasm --activate",
	}
	c.AddCommand(pluginNew(), pluginBuild(), pluginCheck(), pluginBench(), pluginKeygen(), pluginSign(), pluginPush(),
		pluginList(), pluginActivate(), pluginRollback(), pluginUnshadow())
	return c
}

// pluginName matches valid names of plugins.
var pluginName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

func checkPluginName(name string) error {
	if !pluginName.MatchString(name) {
		return exit(exitUsage,
			"invalid plugin name %q: want 1 to 63 lower-case letters, digits and -, beginning with a letter", name)
	}
	return nil
}

func pluginNew() *cobra.Command {
	c := &cobra.Command{Use: "new NAME", Short: "write a project with a scorer of ten lines", Args: cobra.ExactArgs(1)}
	lang := c.Flags().String("lang", "go", "go, c or rust")
	dir := c.Flags().String("dir", "", "folder to write; default NAME")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if err := errors.Join(checkOutput(*output), checkPluginName(name)); err != nil {
			return err
		}
		if *dir == "" {
			*dir = name
		}
		wasmFile, err := outputName(*dir)
		if err != nil {
			return err
		}
		files, err := projectFiles(*lang, name, wasmFile)
		if err != nil {
			return err
		}
		if err := writeFiles(*dir, files); err != nil {
			return err
		}
		if *output == "json" {
			paths := make([]string, len(files))
			for i, f := range files {
				paths[i] = f.path
			}
			return printValue(cmd.OutOrStdout(), map[string]any{"name": name, "lang": *lang, "dir": *dir, "edit": files[0].path,
				"files": paths})
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is ready. Edit %s, then:\n\n  cd %s\n  kvasir plugin build\n  kvasir "+
			"plugin check %s\n\nREADME.md has the next steps, COLUMNS.md what a plugin can read.\n",
			*dir, filepath.Join(*dir, files[0].path), *dir, wasmFile)
		return err
	}
	return c
}

// readModule reads a plugin's file.
func readModule(path string) ([]byte, error) {
	code, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, exit(exitUsage, "%s: no such file (kvasir plugin build creates it)", path)
	}
	if err != nil {
		return nil, exit(exitUsage, "%v", err)
	}
	return code, nil
}

// allModules are all modules that a plugin may be granted. Local checks grant them all.
var allModules = []string{abi.ModuleLog, abi.ModuleKV, abi.ModuleMetrics}

// loadModule loads a plugin as a router would, in a separate runtime. done closes both.
func loadModule(ctx context.Context, code []byte, opt wasm.Options) (p *wasm.Plugin, done func(), err error) {
	rt, err := wasm.New(ctx, wasm.Config{Modules: hostmod.Alone()})
	if err != nil {
		return nil, nil, err
	}
	opt.Grants = allModules
	if p, err = rt.Load(ctx, code, opt); err != nil {
		return nil, nil, errors.Join(err, rt.Close())
	}
	return p, func() { p.Close(); _ = rt.Close() }, nil
}

func pluginPush() *cobra.Command {
	c := &cobra.Command{Use: "push FILE", Short: "store a plugin in a running router", Args: cobra.ExactArgs(1)}
	a, output := routerFlags(c), outputFlag(c)
	name := c.Flags().String("name", "", "name to store it under; default that of its manifest")
	activate := c.Flags().Bool("activate", false, "use it from the next request on")
	shadow := c.Flags().Bool("shadow", false,
		"score beside the active version, without effect; kvasir plugin list shows the comparison")
	c.MarkFlagsMutuallyExclusive("activate", "shadow")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		code, err := readModule(args[0])
		if err != nil {
			return err
		}
		if *name == "" {
			if *name, err = manifestName(cmd.Context(), args[0], code); err != nil {
				return err
			}
		}
		if err := checkPluginName(*name); err != nil {
			return err
		}
		q := &admin.PushRequest{Name: *name, Activate: *activate, Shadow: *shadow, Code: code}
		return show(cmd, a, *output, admin.PushPlugin, q, func(w io.Writer,
			v *admin.PluginChange) error {
			return printPush(w, *name, v)
		})
	}
	return c
}

// printPush prints the result of a push and the next steps.
func printPush(w io.Writer, name string, v *admin.PluginChange) error {
	note := "stored, not active: push it with --activate to use it"
	switch {
	case v.Shadow:
		note = "shadow: it scores beside the active version, without effect; kvasir plugin list shows the comparison,\n" +
			"  kvasir plugin push --activate activates it, kvasir plugin unshadow " + name + " ends the shadow"
	case v.Active && v.Used:
		note = "active from the next request on; kvasir plugin rollback " + name + " undoes it"
	case v.Active && v.Note != "":
		note = "active, but not used: " + v.Note
	case v.Active:
		note = "active, but no profile in the router's configuration uses it; add to the configuration what is missing " +
			"of\n  plugins: [{name: " + name +
			"}]\n  profiles: [{name: default, scorers: [{plugin: " + name + "}]}]"
	}
	_, err := fmt.Fprintf(w, "%s %s: %s\n", name, short(v.Digest), note)
	return err
}

// manifestName returns the name in the manifest of a plugin. It has to load the plugin
// for that, so that invalid modules are rejected here.
func manifestName(ctx context.Context, path string, code []byte) (string, error) {
	p, done, err := loadModule(ctx, code, wasm.Options{Instances: 1})
	if le, ok := errors.AsType[*wasm.LoadError](err); ok && le.Step == "configure" {
		return "", exit(exitUsage, "%s: the module returns no name without a configuration: set --name (%v)", path, err)
	}
	if err != nil {
		return "", exit(exitNo, "%s: %v", path, err)
	}
	defer done()
	return p.Name(), nil
}

// short returns the first characters of a digest.
func short(digest string) string { return digest[:min(12, len(digest))] }

func pluginRollback() *cobra.Command {
	c := &cobra.Command{Use: "rollback NAME", Short: "activate the previous version", Args: cobra.ExactArgs(1)}
	a, output := routerFlags(c), outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPluginName(args[0]); err != nil {
			return err
		}
		return show(cmd, a, *output, admin.RollbackPlugin, &admin.PluginRequest{Name: args[0]}, printSwitch(cmd, args[0]))
	}
	return c
}

func pluginActivate() *cobra.Command {
	c := &cobra.Command{
		Use: "activate NAME DIGEST", Short: "activate a stored version", Args: cobra.ExactArgs(2),
		Long: "DIGEST is a digest from kvasir plugin push or list, or its first 8 or more characters. Activating\n" +
			"requires the scope plugin:activate, and pushing plugin:push, so that different people can hold them.",
	}
	a, output := routerFlags(c), outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPluginName(args[0]); err != nil {
			return err
		}
		return show(cmd, a, *output, admin.ActivatePlugin, &admin.ActivateRequest{Name: args[0], Digest: args[1]},
			printSwitch(cmd, args[0]))
	}
	return c
}

// printSwitch prints which version of a plugin is active.
func printSwitch(cmd *cobra.Command, name string) func(w io.Writer, v *admin.PluginChange) error {
	return func(w io.Writer, v *admin.PluginChange) (err error) {
		if v.Note != "" {
			cmd.PrintErrln(v.Note)
		}
		if v.Digest == "" {
			_, err = fmt.Fprintf(w, "%s: no pushed version is active\n", name)
		} else {
			_, err = fmt.Fprintf(w, "%s %s: active\n", name, short(v.Digest))
		}
		return err
	}
}

func pluginUnshadow() *cobra.Command {
	c := &cobra.Command{Use: "unshadow NAME", Short: "end the shadow of a plugin", Args: cobra.ExactArgs(1)}
	a, output := routerFlags(c), outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPluginName(args[0]); err != nil {
			return err
		}
		return show(cmd, a, *output, admin.EndShadow, &admin.PluginRequest{Name: args[0]},
			func(w io.Writer, _ *admin.PluginChange) error {
				_, err := fmt.Fprintf(w, "%s: has no shadow\n", args[0])
				return err
			})
	}
	return c
}

// shadowText returns the comparison of a shadow with the active plugin.
func shadowText(s *admin.Shadow) string {
	text := "shadow: nothing compared yet"
	if s.Decisions > 0 {
		text = fmt.Sprintf("shadow: rank agreement %.3f, %.1f %% placed elsewhere", s.RankAgreement, 100*s.Elsewhere)
	}
	if s.Signer != "" {
		text += ", signed by " + s.Signer
	}
	if s.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", s.Skipped)
	}
	if s.Quarantine != "" {
		text += ", quarantined: " + s.Quarantine
	}
	return text
}

func pluginList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "list the plugins of a running router and their versions", Args: cobra.NoArgs}
	a, output := routerFlags(c), outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return show(cmd, a, *output, admin.ListPlugins, &admin.None{}, func(w io.Writer, l admin.PluginList) error {
			return printPlugins(w, l.Plugins)
		})
	}
	return c
}

// printPlugins writes a line per plugin, then one for its shadow and one for each other
// stored version, newest first.
func printPlugins(w io.Writer, plugins []admin.Plugin) error {
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PLUGIN\tDIGEST\tVERSION\tFROM\tROLES\tSTATE\tCALLS\tFAULTS\tTIME PER CALL")
	for _, p := range plugins {
		state, calls := p.State, "\t\t"
		if p.Reason != "" {
			state += ": " + p.Reason
		}
		if s := p.Stats; s != nil {
			var faults uint64
			for _, n := range s.Faults {
				faults += n
			}
			calls = fmt.Sprintf("%d\t%d\t%v", s.Calls, faults, time.Duration(s.CallMicros*float64(time.Microsecond)))
		}
		from := p.Source
		for _, v := range p.Versions {
			if v.Digest == p.Digest && v.Pusher != "" && p.Source == "stored" {
				from += ", pushed by " + v.Pusher
			}
		}
		if p.Signer != "" {
			from += ", signed by " + p.Signer
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, short(p.Digest), p.Version, from, strings.Join(p.Roles, ","),
			state, calls)
		var shadow string
		if s := p.Shadow; s != nil {
			shadow = s.Digest
			fmt.Fprintf(t, "\t%s\t\t\t\t%s\t%d\t%d\t\n", short(s.Digest), shadowText(s), s.Decisions, s.Faults)
		}
		for i := len(p.Versions) - 1; i >= 0; i-- {
			v := p.Versions[i]
			if v.Digest == p.Digest || v.Digest == shadow {
				continue
			}
			state = "pushed " + v.Stored.Local().Format(time.DateTime)
			if v.Pusher != "" {
				state += " by " + v.Pusher
			}
			if v.Digest == p.Previous {
				state += ", target of rollback"
			}
			fmt.Fprintf(t, "\t%s\t\t\t\t%s\t\t\t\n", short(v.Digest), state)
		}
	}
	return t.Flush()
}

// printValue writes v as indented JSON.
func printValue(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
