package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/replay"
	"github.com/kvasir-router/kvasir/host/replay/scenario"
)

func traceCommand() *cobra.Command {
	c := &cobra.Command{Use: "trace", Short: "make traces for replay"}
	c.AddCommand(traceGenCommand())
	return c
}

func traceGenCommand() *cobra.Command {
	g := &scenario.Generator{}
	c := &cobra.Command{
		Use:   "gen " + strings.Join(scenario.Kinds(), "|"),
		Short: "generate a workload as Mooncake JSON lines",
		Long: "kvasir trace gen writes a generated workload: one request a line, with the block ids of its prompt. The\n" +
			"same seed gives the same workload. Flags that are not set have the defaults of the kind:\n\n" +
			"  agentic   long prompts that grow with each turn and share the tools' prefix\n" +
			"  burst     clients that begin at once and share a system prompt\n" +
			"  rag       questions behind a system prompt and found documents\n" +
			"  tenants   chats of several tenants, each with its own system prompt\n" +
			"  waves     bursts of requests that differ in their last tokens",
		Args: cobra.ExactArgs(1),
	}
	fl := c.Flags()
	seed := fl.Uint64("seed", 1, "seed")
	out := fl.StringP("out", "o", "-", "file; - is standard output")
	fl.IntVar(&g.Number, "number", 0, "conversations; of waves: waves")
	fl.Float64Var(&g.Rate, "rate", 0, "conversations a second, at random times")
	fl.IntVar(&g.Clients, "clients", 0, "clients of a burst; of waves: requests of one")
	fl.IntVar(&g.Turns, "turns", 0, "turns of each client or, on average, conversation")
	fl.IntVar(&g.System, "system", 0, "tokens of a system prompt")
	fl.Float64Var(&g.Think, "think", 0, "mean pause of a client in seconds")
	fl.IntVar(&g.Shared, "shared", 0, "documents, tenants, tool sets or prompts that prompts share")
	fl.Float64Var(&g.Period, "period", 0, "seconds between waves")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		g.Kind = args[0]
		t, err := g.Generate(*seed)
		if err != nil {
			return exit(exitUsage, "%v", err)
		}
		return writeTrace(*out, cmd.OutOrStdout(), t)
	}
	return c
}

func writeTrace(name string, stdout io.Writer, t *replay.Trace) error {
	w := stdout
	var file *os.File
	if name != "-" {
		var err error
		if file, err = os.Create(name); err != nil {
			return exit(exitNo, "%v", err)
		}
		w = file
	}
	err := replay.WriteMooncake(w, t)
	if file != nil {
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return exit(exitNo, "%v", err)
	}
	fmt.Fprintf(os.Stderr, "%s: %d conversations, %d requests, ideal hit %.1f %%\n", t.Name, len(t.Conversations),
		t.Requests(), 100*replay.IdealHit(t))
	return nil
}
