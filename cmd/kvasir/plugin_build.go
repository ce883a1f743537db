package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// builder is one way to build the module of a folder.
type builder struct {
	name string // of --with
	args []string
	env  []string
	hint string // what to install if parts of the program are missing

	// made copies the module to its destination, for a program that chooses the name and
	// prints it on standard output; nil = the program accepts the name.
	made func(stdout []byte) error
}

func pluginBuild() *cobra.Command {
	c := &cobra.Command{
		Use:   "build [DIR] [-- FLAG...]",
		Short: "compile a plugin's folder to WebAssembly",
		Long: "A folder with a go.mod is built by TinyGo if that is installed, else by Go; one with a Cargo.toml by\n" +
			"cargo; one with *.c or *.cpp by clang, else by zig.\n" +
			"Flags after -- are passed to the compiler: kvasir plugin build -- -msimd128",
	}
	out := c.Flags().StringP("out", "o", "", "file to write; default DIR/NAME.wasm, where NAME is the folder's name")
	with := c.Flags().String("with", "",
		"compiler to use: go, tinygo, cargo, clang or zig; default the first that is installed")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*output); err != nil {
			return err
		}
		dirs, flags := args, []string(nil)
		if n := cmd.ArgsLenAtDash(); n >= 0 {
			dirs, flags = args[:n], args[n:]
		}
		if len(dirs) > 1 {
			return exit(exitUsage, "want one folder, got %q", dirs)
		}
		dir := "."
		if len(dirs) == 1 {
			dir = dirs[0]
		}
		if *out == "" {
			name, err := outputName(dir)
			if err != nil {
				return err
			}
			*out = filepath.Join(dir, name)
		}
		start := time.Now()
		by, err := buildPlugin(cmd.Context(), dir, *out, *with, flags)
		if err != nil {
			return err
		}
		info, err := os.Stat(*out)
		if err != nil {
			return exit(exitNo, "%v", err)
		}
		if *output == "json" {
			return printValue(cmd.OutOrStdout(), map[string]any{"file": *out, "bytes": info.Size(), "with": by,
				"seconds": time.Since(start).Seconds()})
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes, by %s in %.1f s\n", *out, info.Size(), by,
			time.Since(start).Seconds())
		return err
	}
	return c
}

// outputName returns the name of the module that a folder is built to.
func outputName(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", exit(exitUsage, "%s: %v", dir, err)
	}
	return filepath.Base(abs) + ".wasm", nil
}

// buildPlugin builds dir to out and returns the program that was used.
func buildPlugin(ctx context.Context, dir, out, with string, flags []string) (string, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", exit(exitUsage, "%s: no such folder", dir)
	}
	abs, err := filepath.Abs(out)
	if err != nil {
		return "", exit(exitUsage, "%s: %v", out, err)
	}
	tmp, err := os.MkdirTemp("", "kvasir-build-")
	if err != nil {
		return "", exit(exitNo, "%v", err)
	}
	defer os.RemoveAll(tmp)
	made := filepath.Join(tmp, "plugin.wasm")
	b, err := chooseBuilder(dir, with, made, tmp, flags)
	if err != nil {
		return "", err
	}
	if err := b.run(ctx, dir); err != nil {
		return "", err
	}
	code, err := os.ReadFile(made)
	if err != nil {
		return "", exit(exitNo, "%s wrote no module: %v", b.args[0], err)
	}
	return b.args[0], replaceModule(abs, code)
}

// replaceModule renames the module over the old one: a router may watch it.
func replaceModule(path string, code []byte) error {
	tmp := path + ".tmp"
	err := os.WriteFile(tmp, code, 0o644)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return exit(exitNo, "%v", errors.Join(err, os.Remove(tmp)))
	}
	return nil
}

// chooseBuilder returns a builder for the sources in dir whose compiler is installed.
func chooseBuilder(dir, with, out, tmp string, flags []string) (*builder, error) {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return goBuilder(with, out, tmp, flags)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, exit(exitUsage, "%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "Cargo.toml")); err == nil {
		return cargoBuilder(with, out, flags)
	}
	for _, pattern := range []string{"*.c", "*.cpp", "*.cc"} {
		sources, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(sources) == 0 {
			continue
		}
		for i := range sources {
			sources[i] = filepath.Base(sources[i])
		}
		for _, f := range unbundle(sdkC) { // for folders without a copy of kvasir.h
			if err := os.WriteFile(filepath.Join(tmp, f.path), []byte(f.text), 0o600); err != nil {
				return nil, exit(exitNo, "%v", err)
			}
		}
		return cBuilder(with, pattern != "*.c", out, sources, append([]string{"-I.", "-I" + tmp}, flags...))
	}
	return nil, exit(exitUsage,
		"%s: no go.mod, Cargo.toml, *.c or *.cpp found (create a project with kvasir plugin new NAME --lang go|c|rust)", dir)
}

// tinyTarget is the TinyGo target file of the SDK.
const tinyTarget = "tinygo.json"

func goBuilder(with, out, tmp string, flags []string) (*builder, error) {
	program := find(with, map[string][]string{"tinygo": {"tinygo"}, "go": {"go"}}, "tinygo", "go")
	b := &builder{name: program, env: []string{"GOWORK=off"}}
	switch program {
	case "tinygo":
		target := filepath.Join(tmp, tinyTarget)
		for _, f := range unbundle(sdkGo) {
			if f.path != tinyTarget {
				continue
			}
			if err := os.WriteFile(target, []byte(f.text), 0o600); err != nil {
				return nil, exit(exitNo, "%v", err)
			}
		}
		b.args = append([]string{program, "build", "-target=" + target, "-panic=trap", "-opt=2", "-no-debug", "-o", out},
			flags...)
		b.hint = "TinyGo 0.35 or newer is needed, one that knows the installed Go; --with go builds with Go alone"
	case "go":
		b.env = append(b.env, "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-mod=mod")
		b.args = append([]string{program, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
			"-o", out}, flags...)
		b.hint = "Go 1.24 or newer is needed"
	default:
		return nil, missing(with, "Go 1.24 or newer, or TinyGo 0.35 or newer")
	}
	b.args = append(b.args, ".")
	return b, nil
}

// cargoBuilder builds a package with one cdylib, as sdk/rust/build.sh does.
func cargoBuilder(with, out string, flags []string) (*builder, error) {
	const target = "wasm32-unknown-unknown"
	program := find(with, map[string][]string{"cargo": {"cargo"}}, "cargo")
	if program == "" {
		return nil, missing(with, "Rust 1.82 or newer, and rustup target add "+target)
	}
	b := &builder{name: program, hint: "rustup target add " + target + " installs what cargo needs for plugins",
		env: []string{"CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=-Clink-arg=-zstack-size=16384"}}
	b.args = append([]string{program, "build", "-q", "--release", "--target", target, "--message-format",
		"json-render-diagnostics"}, flags...)
	b.made = func(stdout []byte) error {
		var modules []string
		for line := range bytes.Lines(stdout) {
			var m struct{ Filenames []string }
			if json.Unmarshal(line, &m) != nil {
				continue // of a build script
			}
			for _, f := range m.Filenames {
				if filepath.Ext(f) == ".wasm" {
					modules = append(modules, f)
				}
			}
		}
		if len(modules) != 1 {
			return exit(exitNo, "cargo built %d modules, want one: set crate-type = [\"cdylib\"] in Cargo.toml", len(modules))
		}
		code, err := os.ReadFile(modules[0])
		if err == nil {
			err = os.WriteFile(out, code, 0o600)
		}
		if err != nil {
			return exit(exitNo, "%v", err)
		}
		return nil
	}
	return b, nil
}

// cFlags are those of sdk/c/build.sh.
var cFlags = []string{"-nostdlib", "-ffreestanding", "-O3", "-Wall", "-Wextra", "-mbulk-memory",
	"-mnontrapping-fptoint", "-msign-ext",
	"-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=16384"}

func cBuilder(with string, cpp bool, out string, sources, flags []string) (*builder, error) {
	clangs := []string{"clang-19", "clang", "clang-22", "clang-21", "clang-20", "clang-18", "clang-17", "clang-16"}
	if cc := os.Getenv("CC"); strings.Contains(filepath.Base(cc), "clang") {
		clangs = slices.Insert(clangs, 0, cc)
	}
	program := find(with, map[string][]string{"clang": clangs, "zig": {"zig"}}, "clang", "zig")
	b := &builder{name: "clang", hint: "wasm-ld comes with lld (Debian: apt-get install lld-19)"}
	switch program {
	case "":
		return nil, missing(with, "clang with lld (Debian: apt-get install clang-19 lld-19), or zig")
	case "zig":
		b.name, b.hint = "zig", "zig 0.14 or newer is needed"
		b.args = []string{program, map[bool]string{false: "cc", true: "c++"}[cpp], "--target=wasm32-freestanding"}
	default:
		b.args = []string{program, "--target=wasm32"}
	}
	if cpp {
		b.args = append(b.args, "-std=c++17", "-fno-exceptions", "-fno-rtti")
	} else {
		b.args = append(b.args, "-std=c11")
	}
	b.args = slices.Concat(b.args, cFlags, flags, []string{"-o", out}, sources)
	return b, nil
}

// find returns the first installed program of the builder with, or of the
// builders in order if with is empty; "" = none.
func find(with string, programs map[string][]string, order ...string) string {
	if with != "" {
		order = []string{with}
	}
	for _, name := range order {
		for _, p := range programs[name] {
			if _, err := exec.LookPath(p); err == nil {
				return p
			}
		}
	}
	return ""
}

func missing(with, what string) error {
	if with != "" {
		return exit(exitUsage, "--with %s: not installed, or not usable for this folder; install %s", with, what)
	}
	return exit(exitNo, "no compiler for this folder: install %s", what)
}

// run runs the compiler in dir. The error contains its output.
func (b *builder) run(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, b.args[0], b.args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), b.env...)
	var text, stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if b.made != nil {
		cmd.Stdout = &stdout
	}
	err := cmd.Run()
	if err == nil {
		if _, err := text.WriteTo(os.Stderr); err != nil || b.made == nil { // warnings
			return err
		}
		return b.made(stdout.Bytes())
	}
	said := strings.TrimSpace(text.String())
	if len(said) > 8<<10 {
		said = said[:8<<10] + " …"
	}
	if source := strings.Contains(said, "error:") || strings.Contains(said, ".go:"); b.name == "tinygo" ||
		strings.Contains(said, "wasm32-unknown-unknown") || !source || strings.Contains(said, "\"wasm-ld\"") {
		said += "\n(" + b.hint + ")"
	}
	return exit(exitNo, "%s: %v\n%s", b.args[0], err, said)
}
