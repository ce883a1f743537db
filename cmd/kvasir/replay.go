package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/replay"
	"github.com/kvasir-router/kvasir/host/replay/scenario"
	"github.com/kvasir-router/kvasir/host/rules"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// replayFlags are the flags of kvasir replay and kvasir tune.
type replayFlags struct {
	traces    string
	against   []string
	objective string
	seeds     int
	firstSeed int
	load      []string
	output    string
	html      string

	config  string
	name    string            // of the profile
	profile scheduler.Profile // of the router

	scenario scenario.File // of flags, where no file is given
	count    int
	preset   string
	cache    float64
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
			"and @FILE stands for the policies in FILE, one a line. kvasir:NAME=VALUE,… is the router with other\n" +
			"constants (those of kvasir tune).\n" + scenario.PeerHelp(),
	}
	f := &replayFlags{}
	f.common(c)
	fl := c.Flags()
	fl.StringSliceVar(&f.against, "against", []string{"roundrobin", "leastinflight", "sticky", "smetric", "lmetric", "e2"},
		"policies to compare with; all = every one, none = none")
	fl.StringSliceVar(&f.load, "load", []string{"1"}, "load beside the scenario's, a sweep: 0.5,0.7,0.9,1.1,1.3")
	fl.StringVar(&f.html, "html", "", "file for a page with tables and plots")
	fl.StringVar(&f.scenario.Trace.File, "trace", "", "recorded trace, in the folder of traces or a path")
	fl.StringVar(&f.scenario.Trace.Format, "format", "",
		"format of --trace: "+strings.Join(scenario.Formats(), ", ")+"; default by its name")
	fl.StringVar(&f.scenario.Trace.Tokenizer, "tokenizer", "",
		"folder with the model's tokenizer files, for --trace with OpenAI requests")
	fl.Float64Var(&f.scenario.Trace.Rate, "rate", 0, "conversations a second that begin at random; default as recorded")
	fl.IntVar(&f.scenario.Trace.Conversations, "conversations", 0, "conversations of --trace at most; default all")
	fl.IntVar(&f.scenario.Trace.MaxContext, "max-context", 0,
		"tokens; a conversation of --trace ends before a longer prompt")
	fl.DurationVar((*time.Duration)(&f.scenario.Trace.MaxThink), "max-think", 0,
		"longest pause of a client of --trace; default as recorded")
	fl.DurationVar((*time.Duration)(&f.scenario.SLO.TTFT), "slo-ttft", 0,
		"time to the first token of a good request; default 2s")
	fl.DurationVar((*time.Duration)(&f.scenario.SLO.TPOT), "slo-tpot", 0, "time per token of a good request; default 50ms")
	fl.Float64Var(&f.cache, "cache", 1, "KV memory of an engine beside the preset's")
	fl.StringVar(&f.scenario.Generate.Kind, "generate", "", "generated workload: "+strings.Join(scenario.Kinds(), ", "))
	fl.IntVar(&f.count, "endpoints", 4, "engines")
	fl.StringVar(&f.preset, "preset", "8b-h100", "kind of engines: 8b-a100, 8b-h100 or 70b-4xh100")
	c.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) }
	return c
}

// common adds the flags that replay and tune share.
func (f *replayFlags) common(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.traces, "traces", envOr("KVASIR_TRACES", "../shared/traces"),
		"folder of recorded traces (KVASIR_TRACES)")
	fl.StringVar(&f.objective, "objective", "", "objective of the router's profile: ttft, throughput or blend")
	fl.StringVarP(&f.config, "config", "c", "",
		"configuration file whose profile places, with its plugins; default the built-in profile")
	fl.StringVar(&f.name, "profile", "", "profile of --config; default its first")
	fl.IntVar(&f.seeds, "seeds", 3, "number of seeds; intervals are of 95 % over them")
	fl.IntVar(&f.firstSeed, "first-seed", 1, "the first seed")
	fl.StringVar(&f.output, "output", "text", "text or json")
}

// options checks the common flags.
func (f *replayFlags) options() (o scenario.Options, err error) {
	if err := checkOutput(f.output); err != nil {
		return o, err
	}
	if f.seeds < 1 || f.seeds > 1000 || f.firstSeed < 0 {
		return o, exit(exitUsage, "--seeds %d --first-seed %d: want 1 to 1000 seeds from 0 on", f.seeds, f.firstSeed)
	}
	if f.objective != "" && !slices.Contains(objectiveNames, f.objective) {
		return o, exit(exitUsage, "--objective %s: want ttft, throughput or blend", f.objective)
	}
	for i := range f.seeds {
		o.Seeds = append(o.Seeds, uint64(f.firstSeed+i))
	}
	return o, nil
}

var objectiveNames = []string{string(scheduler.TTFT), string(scheduler.Throughput), string(scheduler.Blend)}

// openProfile sets the router's profile. close releases its plugins.
func (f *replayFlags) openProfile() (close func() error, err error) {
	close = func() error { return nil }
	if f.config != "" {
		cfg, err := config.Load(f.config)
		if err != nil {
			return nil, exit(exitUsage, "%v", err)
		}
		p, err := host.OpenPlacement(cfg)
		if err != nil {
			return nil, exit(exitNo, "%v", err)
		}
		if f.profile, err = p.Profile(f.name); err != nil {
			return nil, errors.Join(exit(exitUsage, "%v", err), p.Close())
		}
		close = p.Close
	}
	if f.objective != "" {
		f.profile.Objective = scheduler.Objective(f.objective)
	}
	return close, nil
}

func (f *replayFlags) run(cmd *cobra.Command, args []string) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	done, err := f.openProfile()
	if err != nil {
		return err
	}
	defer done()
	policies, err := f.policies()
	if err != nil {
		return exit(exitUsage, "%v", err)
	}
	cases, err := f.cases(args)
	if err != nil {
		return err
	}
	bar := newProgress(os.Stderr)
	o.Progress = bar.show
	var all []*scenario.Comparison
	for _, k := range cases {
		for _, text := range f.load {
			if o.Load, err = strconv.ParseFloat(text, 64); err != nil || !(o.Load > 0) {
				return exit(exitUsage, "--load %s: want numbers above 0", text)
			}
			c, err := scenario.Compare(k.File, k.Workload, policies, o)
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
	return f.report(cmd.OutOrStdout(), all)
}

// report writes what is of all comparisons.
func (f *replayFlags) report(w io.Writer, all []*scenario.Comparison) error {
	if f.html != "" {
		out, err := os.Create(f.html)
		if err != nil {
			return exit(exitNo, "%v", err)
		}
		if err := errors.Join(scenario.WriteHTML(out, all), out.Close()); err != nil {
			return exit(exitNo, "%v", err)
		}
	}
	summary := scenario.Summarize(all)
	if f.output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(struct {
			Scenarios []*scenario.Comparison `json:"scenarios"`
			Summary   []scenario.Summary     `json:"summary"`
		}{all, summary})
	}
	if len(all) < 2 {
		return nil
	}
	return scenario.WriteSummary(w, summary, len(all))
}

// policies returns the router's scheduler and the policies that it is compared with.
func (f *replayFlags) policies() ([]scenario.Policy, error) {
	out := []scenario.Policy{scenario.Product(scenario.ProductName, f.profile)}
	names, err := policyNames(f.against)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p, err := scenario.ParsePolicy(name, f.profile)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// policyNames resolves all, none and @FILE.
func policyNames(list []string) (out []string, err error) {
	for i := 0; i < len(list); i++ {
		name := list[i]
		for i+1 < len(list) && strings.Contains(list[i+1], "=") && !strings.Contains(list[i+1], ":") {
			i++ // the flag splits at commas, also those between constants
			name += "," + list[i]
		}
		switch {
		case name == "none":
		case name == "all":
			out = append(out, scenario.PeerNames()...)
		case strings.HasPrefix(name, "@"):
			text, err := os.ReadFile(name[1:])
			if err != nil {
				return nil, err
			}
			for _, line := range strings.Split(string(text), "\n") {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
					out = append(out, line)
				}
			}
		default:
			out = append(out, name)
		}
	}
	return out, nil
}

// cases returns the scenarios with their workloads.
func (f *replayFlags) cases(args []string) (out []scenario.Case, err error) {
	files, err := f.files(args)
	if err != nil {
		return nil, exit(exitUsage, "%v", err)
	}
	for _, file := range files {
		w, err := file.Open(&scenario.Sources{Traces: f.traces, Prompts: openPrompts})
		if err != nil {
			return nil, exit(exitNo, "%v", err)
		}
		out = append(out, scenario.Case{File: file, Workload: w})
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
		s.Engines = []scenario.Group{{Count: f.count, Preset: f.preset, Cache: f.cache}}
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

// promptBytes bounds the memory of cached prompts while a log of requests is read.
const promptBytes = 256 << 20

// openPrompts opens a tokenizer folder for a log of requests.
func openPrompts(dir string) (replay.Prompter, error) {
	p, err := rules.OpenPrompts(&config.Tokenizer{Dir: dir}, promptBytes)
	if err != nil {
		return nil, err
	}
	return p.Chat(), nil
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
