// Command kvasir is the router and its tools: serve, the demo fleet (dev), the
// simulated engine, and commands that work on a running router or on files.
//
// Exit codes: 0 success, 1 failure or a negative result, 2 wrong usage, 3 router not
// reachable.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/identity"
)

// version is set by the linker.
var version = "dev"

// Exit codes for scripts.
const (
	exitNo          = 1
	exitUsage       = 2
	exitUnreachable = 3
)

// exitError carries the exit code of an error.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exit(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

func main() {
	serveChild()
	err := root().Execute()
	if err == nil {
		return
	}
	os.Exit(report(os.Stderr, err))
}

// report writes an error without the keys and tokens in it, and returns its exit
// code.
func report(w io.Writer, err error) int {
	fmt.Fprintln(w, "kvasir:", identity.Redact(err.Error()))
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return exitUsage
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:   "kvasir",
		Short: "KV-aware, scriptable inference router",
		Long: "Kvasir sends each LLM request to the engine that already holds its KV cache.\n" +
			"kvasir dev starts a demo fleet; kvasir serve -c kvasir.yaml routes to your engines.\n\n" +
			"Commands that work on a running router take --admin and --token, or KVASIR_ADMIN and KVASIR_TOKEN.\n" +
			"Exit codes: 0 success, 1 failure or a negative result, 2 wrong usage, 3 router not reachable.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
	}
	c.AddCommand(serveCommand(), devCommand(), engineCommand(), explainCommand(), endpointCommand(),
		autoscaleCommand(), devDriverCommand(), tokenizeCommand(), keyCommand(), configCommand(), reloadCommand(),
		pluginCommand(), policyCommand(), auditCommand(), replayCommand(), traceCommand(), tuneCommand(), analyzeCommand(),
		localityCommand(), versionCommand())
	return c
}

// outputFlag adds --output and returns where its value will be.
func outputFlag(c *cobra.Command) *string {
	return c.Flags().String("output", "text", "text or json")
}

func checkOutput(v string) error {
	if v != "text" && v != "json" {
		return exit(exitUsage, "--output %s: want text or json", v)
	}
	return nil
}
