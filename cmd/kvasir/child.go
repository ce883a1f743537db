package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/plugincheck"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// compileArg makes this program the child process that compiles plugins for a router. It
// is not a command for users.
const compileArg = "__compile"

// serveChild compiles plugins if the program was started for that, and exits.
func serveChild() {
	if len(os.Args) != 2 || os.Args[1] != compileArg {
		return
	}
	if err := wasm.ServeChild(os.Stdin, os.Stdout, hostmod.Alone(), plugincheck.Verify); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitNo)
	}
	os.Exit(0)
}

// childCommand returns the command that starts this program to compile plugins.
func childCommand(log *slog.Logger) []string {
	c, err := wasm.SelfCommand(compileArg)
	if err != nil {
		log.Warn("no child process: plugins are compiled in this process and may delay requests", "err", err)
	}
	return c
}
