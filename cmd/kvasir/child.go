package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/plugincheck"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// compileArg makes this program the one that compiles plugins for a router, as
// host/wasm starts it; it is no command for people.
const compileArg = "__compile"

// serveChild compiles one plugin if the program was started for that, and ends.
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

// childCommand is how this program starts itself to compile plugins.
func childCommand(log *slog.Logger) []string {
	c, err := wasm.SelfCommand(compileArg)
	if err != nil {
		log.Warn("plugins are compiled in this process, requests may wait", "err", err)
	}
	return c
}
