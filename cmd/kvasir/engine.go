package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/simengine"
	"github.com/kvasir-router/kvasir/host/tokenizer/demo"
)

// engineLine is what kvasir engine prints when it serves.
type engineLine struct {
	URL    string `json:"url"`
	Events string `json:"events"`
	Replay string `json:"replay"`
	Model  string `json:"model"`
	PID    int    `json:"pid"`
}

// engineFlags set up one simulated engine.
type engineFlags struct {
	cfg    simengine.Config
	dir    string // tokenizer directory, "" = the demo model
	faults string
	stepMS float64
}

func (f *engineFlags) add(c *cobra.Command, preset string) {
	c.Flags().StringVar(&f.cfg.Preset, "preset", preset, "timing and memory: 8b-a100, 8b-h100, 70b-4xh100, instant")
	c.Flags().Float64Var(&f.cfg.Speed, "speed", 1, "speed-up: a step takes 1/speed of its time")
	c.Flags().IntVar(&f.cfg.BlockTokens, "block-tokens", 16, "tokens per KV block")
	c.Flags().IntVar(&f.cfg.CacheBlocks, "cache-blocks", 0, "KV blocks; default the preset's memory")
	c.Flags().IntVar(&f.cfg.MaxModelLen, "max-model-len", 0, "prompt and answer tokens; default 32768")
	c.Flags().IntVar(&f.cfg.MaxSeqs, "max-seqs", 256, "sequences in one step")
	c.Flags().BoolVar(&f.cfg.IgnoreSalt, "ignore-salt", false,
		"share the cache between cache salts, as an engine without salts does")
	c.Flags().IntVar(&f.cfg.HostChunk, "host-chunk", 0,
		"second cache in host memory, in chunks of this many tokens (LMCache: 256); 0 = none")
	c.Flags().BoolVar(&f.cfg.HostIgnoreSalt, "host-ignore-salt", false,
		"share the cache in host memory between cache salts, whatever the GPU's does")
	c.Flags().Float64Var(&f.stepMS, "step-ms", 0, "duration of every step in ms, instead of the preset's timing")
	c.Flags().StringVar(&f.faults, "faults", "",
		`faults to inject, as for POST /sim/faults: '{"die":-1,"die_after_events":5}'`)
}

// build makes the engine.
func (f *engineFlags) build(log *slog.Logger) (*simengine.Engine, error) {
	cfg := f.cfg
	cfg.Log = log
	dir := demo.Files()
	if f.dir != "" {
		dir = os.DirFS(f.dir)
	}
	m, err := simengine.LoadModel(dir)
	if err != nil {
		return nil, exit(exitNo, "%v", err)
	}
	if cfg.Model == "" {
		cfg.Model = demoModel
	}
	if f.stepMS > 0 {
		cfg.Timing = &simengine.Timing{C0: f.stepMS, Budget: 1 << 20}
	}
	cfg.Prompter, cfg.Vocabulary, cfg.EOS = m, m, m.EOS()
	if f.faults != "" {
		if err := json.Unmarshal([]byte(f.faults), &cfg.Faults); err != nil {
			return nil, exit(exitUsage, "--faults: %v", err)
		}
	}
	return simengine.New(cfg)
}

func engineCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "engine",
		Short: "run a simulated engine: OpenAI and Anthropic API, KV events, vLLM's metrics",
		Args:  cobra.NoArgs,
	}
	var f engineFlags
	f.add(c, "8b-h100")
	c.Flags().StringVar(&f.cfg.Model, "model", "", "name of the served model; default "+demoModel)
	c.Flags().StringVar(&f.dir, "tokenizer", "", "tokenizer directory; default the built-in demo model")
	hostFlag := c.Flags().String("host", "127.0.0.1", "address to listen on")
	port := c.Flags().Int("port", 8000, "HTTP port, 0 = a free one")
	events := c.Flags().Int("events-port", 0, "KV event port, 0 = a free one")
	replay := c.Flags().Int("replay-port", 0, "KV event replay port, 0 = a free one")
	cold := c.Flags().Duration("cold-start", 0,
		"answer 503 for this long after the start, as an engine that loads its weights")
	parent := c.Flags().Int("while-pid", 0, "end when the process with this id has ended")
	asJSON := c.Flags().Bool("json", false, "print one JSON line when ready")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		e, err := f.build(slog.New(slog.NewTextHandler(os.Stderr, nil)))
		if err != nil {
			return err
		}
		var ls []net.Listener
		for _, p := range []int{*port, *events, *replay} {
			l, err := net.Listen("tcp", net.JoinHostPort(*hostFlag, strconv.Itoa(p)))
			if err != nil {
				return exit(exitNo, "%v", err)
			}
			defer l.Close()
			ls = append(ls, l)
		}
		name := f.cfg.Model
		if name == "" {
			name = demoModel
		}
		line := engineLine{"http://" + ls[0].Addr().String(), "tcp://" + ls[1].Addr().String(),
			"tcp://" + ls[2].Addr().String(), name, os.Getpid()}
		if *asJSON {
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(line); err != nil {
				return err
			}
		} else {
			fmt.Fprintf(cmd.OutOrStdout(), "engine %s serves %s, events %s, replay %s\n", line.URL, line.Model, line.Events,
				line.Replay)
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		ctx = endWith(ctx, *parent)
		if err := loading(ctx, ls[0], *cold); err != nil {
			return nil // it was ended while it loaded
		}
		return e.Run(ctx, ls[0], ls[1], ls[2])
	}
	return c
}
