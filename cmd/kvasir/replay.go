package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/replay/scenario"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// replayFlags are the flags of kvasir replay.
type replayFlags struct {
	traces    string
	against   []string
	objective string
	seeds     int
	load      []string
	output    string

	scenario scenario.File // of flags, where no file is given
	count    int
	preset   string
}

func replayCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "replay [SCENARIO.yaml …]",
		Short: "compare placement policies on recorded or generated load, in virtual time",
		Long: "kvasir replay runs the router's own scheduler, with its index of cached blocks, and policies of others\n" +
			"over a workload, on simulated engines in virtual time, and prints what came of it: time to the first\n" +
			"token, time per token, reuse beside the ideal, goodput under an SLO, skew, queues. The same seeds give\n" +
			"the same figures.\n\n" +
			"  kvasir replay examples/replay/tuning/*.yaml\n" +
			"  kvasir replay --trace mooncake_conversation_trace.jsonl.gz --preset 70b-4xh100 --endpoints 8\n" +
			"  kvasir replay --generate burst --against roundrobin,sticky,lmetric:queued=0.5\n\n" +
			"Policies of others are this project's implementations. Their constants are set with POLICY:NAME=VALUE,…\n" +
			scenario.PeerHelp(),
	}
	f := &replayFlags{}
	fl := c.Flags()
	fl.StringVar(&f.traces, "traces", envOr("KVASIR_TRACES", "../shared/traces"),
		"folder of recorded traces (KVASIR_TRACES)")
	fl.StringSliceVar(&f.against, "against", []string{"roundrobin", "leastinflight", "sticky", "smetric", "lmetric", "e2"},
		"policies to compare with; all = every one, none = none")
	fl.StringVar(&f.objective, "objective", "blend", "objective of the router's profile: ttft, throughput or blend")
	fl.IntVar(&f.seeds, "seeds", 3, "number of seeds; intervals are of 95 % over them")
	fl.StringSliceVar(&f.load, "load", []string{"1"}, "load beside the scenario's, a sweep: 0.5,0.7,0.9,1.1,1.3")
	fl.StringVar(&f.output, "output", "text", "text or json")
	fl.StringVar(&f.scenario.Trace.File, "trace", "", "recorded trace, in the folder of traces or a path")
	fl.StringVar(&f.scenario.Trace.Format, "format", "", "format of --trace; default by its name")
	fl.Float64Var(&f.scenario.Trace.Rate, "rate", 0, "conversations a second that begin at random; default as recorded")
	fl.IntVar(&f.scenario.Trace.Conversations, "conversations", 0, "conversations of --trace at most; default all")
	fl.IntVar(&f.scenario.Trace.MaxContext, "max-context", 0,
		"tokens; a conversation of --trace ends before a longer prompt")
	fl.StringVar(&f.scenario.Generate.Kind, "generate", "", "generated workload: "+strings.Join(scenario.Kinds(), ", "))
	fl.IntVar(&f.count, "endpoints", 4, "engines")
	fl.StringVar(&f.preset, "preset", "8b-h100", "kind of engines: 8b-a100, 8b-h100 or 70b-4xh100")
	c.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) }
	return c
}

func (f *replayFlags) run(cmd *cobra.Command, args []string) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	policies, err := f.policies()
	if err != nil {
		return exit(exitUsage, "%v", err)
	}
	files, err := f.files(args)
	if err != nil {
		return exit(exitUsage, "%v", err)
	}
	if f.seeds < 1 || f.seeds > 1000 {
		return exit(exitUsage, "--seeds %d: want 1 to 1000", f.seeds)
	}
	o := scenario.Options{}
	for i := range f.seeds {
		o.Seeds = append(o.Seeds, uint64(i+1))
	}
	bar := newProgress(os.Stderr)
	o.Progress = bar.show
	var all []*scenario.Comparison
	for _, file := range files {
		w, err := file.Open(f.traces)
		if err != nil {
			return exit(exitNo, "%v", err)
		}
		for _, text := range f.load {
			if o.Load, err = strconv.ParseFloat(text, 64); err != nil || !(o.Load > 0) {
				return exit(exitUsage, "--load %s: want numbers above 0", text)
			}
			c, err := scenario.Compare(file, w, policies, o)
			bar.clear()
			if err != nil {
				return exit(exitNo, "%v", err)
			}
			all = append(all, c)
			if f.output == "text" {
				if err := scenario.WriteTable(cmd.OutOrStdout(), c); err != nil {
					return err
				}
			}
		}
	}
	if f.output == "json" {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", " ")
		return e.Encode(all)
	}
	return nil
}

// policies returns the router's scheduler and the policies that it is compared with.
func (f *replayFlags) policies() ([]scenario.Policy, error) {
	out := []scenario.Policy{scenario.Product("kvasir", scheduler.Profile{Objective: scheduler.Objective(f.objective)})}
	names := f.against
	if len(names) == 1 && names[0] == "none" {
		return out, nil
	}
	if len(names) == 1 && names[0] == "all" {
		names = scenario.PeerNames()
	}
	for i := 0; i < len(names); i++ {
		spec := names[i]
		for i+1 < len(names) && strings.Contains(names[i+1], "=") && !strings.Contains(names[i+1], ":") {
			i++ // the flag splits at commas, also those between constants
			spec += "," + names[i]
		}
		p, err := scenario.ParsePeer(spec)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// files returns the scenarios of files, or the one that the flags describe.
func (f *replayFlags) files(args []string) ([]*scenario.File, error) {
	own := f.scenario.Trace.File != "" || f.scenario.Generate.Kind != ""
	if own && len(args) > 0 {
		return nil, errors.New("give scenario files, or --trace or --generate, not both")
	}
	if !own && len(args) == 0 {
		return nil, errors.New("no scenario: give files, --trace FILE or --generate KIND")
	}
	if own {
		s := &f.scenario
		s.Engines = []scenario.Group{{Count: f.count, Preset: f.preset}}
		s.Name = s.Trace.File + s.Generate.Kind
		if err := s.Check(); err != nil {
			return nil, err
		}
		return []*scenario.File{s}, nil
	}
	var out []*scenario.File
	for _, path := range args {
		s, err := scenario.Read(path)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// progress shows on a terminal how far a command is.
type progress struct {
	w    io.Writer // nil: it is not a terminal
	last string
}

func newProgress(f *os.File) *progress {
	p := &progress{}
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		p.w = f
	}
	return p
}

// barColumns is the width of a progress bar.
const barColumns = 24

func (p *progress) show(what string, done, total int) {
	if p.w == nil {
		return
	}
	n := barColumns * done / max(1, total)
	line := fmt.Sprintf("[%s%s] %3d %% %s", strings.Repeat("#", n), strings.Repeat(" ", barColumns-n),
		100*done/max(1, total), what)
	if line != p.last {
		fmt.Fprintf(p.w, "\r%s\x1b[K", line)
		p.last = line
	}
}

// clear removes the bar.
func (p *progress) clear() {
	if p.w != nil && p.last != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.last = ""
	}
}
