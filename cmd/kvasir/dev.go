package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/statedir"
	"github.com/kvasir-router/kvasir/host/tokenizer/demo"
)

// demoModel is the name of the model that the demo fleet serves.
const demoModel = "demo"

// devLine is the line kvasir dev --json prints when the fleet is ready.
type devLine struct {
	URL        string            `json:"url"`
	Admin      string            `json:"admin"`
	AdminToken string            `json:"admin_token"`
	Model      string            `json:"model"`
	Tenants    map[string]string `json:"tenants"`
	Engines    []devEngine       `json:"engines"`
	StateDir   string            `json:"state_dir"`
	PluginDir  string            `json:"plugin_dir"` // watched: a plugin saved there places
	PolicyDir  string            `json:"policy_dir"` // watched: an edit there decides about the next request
	Config     string            `json:"config"`
	PID        int               `json:"pid"`
}

type devEngine struct {
	URL    string `json:"url"`
	Events string `json:"events"`
	Replay string `json:"replay"`
}

type devFlags struct {
	engineFlags
	engines  int
	port     int
	json     bool
	scale    bool
	cold     time.Duration
	idle     time.Duration
	writeDir string
	level    string
}

func devCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "dev",
		Short: "start a demo fleet: simulated engines, two tenants, the router",
		Long: "kvasir dev starts four simulated engines and a router in front of them, with two tenants.\n" +
			"Nothing is written outside a temporary state directory, which is removed at the end.",
		Args: cobra.NoArgs,
	}
	var f devFlags
	f.add(c, "8b-h100")
	c.Flags().IntVar(&f.engines, "engines", 4, "simulated engines")
	c.Flags().IntVar(&f.port, "port", 8080, "the router's port, 0 = a free one")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON line when ready, and nothing else on standard output")
	c.Flags().BoolVar(&f.scale, "autoscale", false,
		"begin without engines; the autoscaler starts and stops kvasir engine processes")
	c.Flags().DurationVar(&f.cold, "cold-start", 10*time.Second, "with --autoscale: how long an engine loads")
	c.Flags().DurationVar(&f.idle, "idle-after", time.Minute,
		"with --autoscale: remove an engine that was not needed for this long")
	c.Flags().StringVar(&f.writeDir, "write-model", "", "write the demo model's tokenizer files to this folder and exit")
	c.Flags().StringVar(&f.level, "log-level", "warn", "debug, info, warn or error")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if f.writeDir != "" {
			return writeModel(f.writeDir)
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return f.run(ctx, cmd.OutOrStdout())
	}
	return c
}

// writeModel writes the demo model's files.
func writeModel(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit(exitNo, "%v", err)
	}
	return fs.WalkDir(demo.Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(demo.Files(), path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), b, 0o644)
	})
}

// run starts the fleet, serves until ctx ends, and ends all it started.
func (f *devFlags) run(ctx context.Context, out io.Writer) error {
	log, _ := logger(&config.Telemetry{LogLevel: f.level})
	state, err := os.MkdirTemp("", "kvasir-dev-")
	if err != nil {
		return exit(exitNo, "%v", err)
	}
	defer os.RemoveAll(state)
	ctx, cancel := context.WithCancel(ctx)
	broken := make(chan error, f.engines) // engines that ended by themselves
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	line := devLine{Model: demoModel, StateDir: state, PID: os.Getpid(), Tenants: map[string]string{}}
	pool, err := f.pool(ctx, cancel, broken, &wg, &line, log)
	if err != nil {
		return err
	}
	if err := writeDevConfig(state, f.port, pool, &line); err != nil {
		return exit(exitNo, "%v", err)
	}
	cfg, err := config.Load(line.Config)
	if err != nil {
		return &exitError{exitNo, err}
	}
	opt := host.Options{Log: log, Version: version, CompileChild: childCommand(log)}
	if f.scale {
		opt.ScaleEvery = time.Second
	}
	h, err := host.New(cfg, opt)
	if err != nil {
		return &exitError{exitNo, err}
	}
	wg.Go(func() { f.announce(ctx, h, &line, out) })
	if err := h.Run(ctx, nil); err != nil {
		return &exitError{exitNo, err}
	}
	select {
	case err := <-broken:
		return &exitError{exitNo, err}
	default:
		return nil
	}
}

// pool starts the engines, or prepares the driver that will, and returns the
// pool's part of the configuration.
func (f *devFlags) pool(ctx context.Context, cancel context.CancelFunc, broken chan<- error, wg *sync.WaitGroup,
	line *devLine, log *slog.Logger) (string, error) {
	if f.scale {
		return f.scaledPool(line)
	}
	if err := f.startEngines(ctx, cancel, broken, wg, line, log); err != nil {
		return "", err
	}
	var urls, sources []string
	for _, e := range line.Engines {
		urls = append(urls, strconv.Quote(e.URL))
		sources = append(sources, fmt.Sprintf("{endpoint: %q, events: %q, replay: %q}", e.URL, e.Events, e.Replay))
	}
	return fmt.Sprintf("  endpoints: [%s]\n  events: {sources: [%s]}\n",
		strings.Join(urls, ", "), strings.Join(sources, ", ")), nil
}

// scaledPool is a pool that begins empty. The engines end with this process, or
// when the driver ends them.
func (f *devFlags) scaledPool(line *devLine) (string, error) {
	dir := filepath.Join(line.StateDir, "machines")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", exit(exitNo, "%v", err)
	}
	self, err := os.Executable()
	if err != nil {
		return "", exit(exitNo, "%v", err)
	}
	argv := []string{self, "dev-driver", dir, "--", "--cold-start", f.cold.String(), "--while-pid",
		strconv.Itoa(os.Getpid()),
		"--preset", f.cfg.Preset, "--speed", fmt.Sprint(f.cfg.Speed)}
	b, err := json.Marshal(argv) // a flow sequence of YAML
	if err != nil {
		return "", exit(exitNo, "%v", err)
	}
	return fmt.Sprintf("  autoscale: {min: 0, max: %d, window: %s, idle_after: %s, cold_start: %s, drain_timeout: 1m, "+
		"driver: {command: %s}}\n", f.engines, f.idle, f.idle, f.cold, b), nil
}

func (f *devFlags) startEngines(ctx context.Context, cancel context.CancelFunc, broken chan<- error,
	wg *sync.WaitGroup, line *devLine, log *slog.Logger) error {
	for range f.engines {
		e, err := f.build(log)
		if err != nil {
			return err
		}
		var ls [3]net.Listener
		for i := range ls {
			if ls[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				return exit(exitNo, "%v", err)
			}
		}
		wg.Go(func() {
			if err := e.Run(ctx, ls[0], ls[1], ls[2]); err != nil {
				broken <- err
				cancel()
			}
		})
		line.Engines = append(line.Engines, devEngine{"http://" + ls[0].Addr().String(), "tcp://" + ls[1].Addr().String(),
			"tcp://" + ls[2].Addr().String()})
	}
	return nil
}

// writeDevConfig writes the demo's configuration, model and keys into state and
// fills in line.
func writeDevConfig(state string, port int, pool string, line *devLine) error {
	model, keys := filepath.Join(state, "model"), filepath.Join(state, "keys.json")
	line.PolicyDir = filepath.Join(state, "policies")
	if err := writePolicies(line.PolicyDir); err != nil {
		return err
	}
	if err := writeModel(model); err != nil {
		return err
	}
	line.PluginDir = filepath.Join(state, "plugin-dir")
	if err := os.Mkdir(line.PluginDir, 0o700); err != nil {
		return err
	}
	pepper, err := statedir.Pepper(state)
	if err != nil {
		return err
	}
	err = identity.Update(keys, func(k *identity.KeyFile) error {
		for _, tenant := range []string{"acme", "globex"} {
			key, _, err := k.Issue(pepper, identity.Grant{Tenant: tenant}, "kvasir dev", time.Now())
			if err != nil {
				return err
			}
			line.Tenants[tenant] = key
		}
		return nil
	})
	if err != nil {
		return err
	}
	adminPort := "127.0.0.1:0"
	if port != 0 {
		adminPort = "127.0.0.1:9090"
	}
	yaml := fmt.Sprintf(`# written by kvasir dev
listen: 127.0.0.1:%d
admin: {http: "%s"}
state_dir: %q
plugin_dir: %q
identity: {api_keys_file: %q}
pools:
- name: main
%smodels: [{name: %s, pools: [main], tokenizer: {dir: %q}}]
# A demo has too few requests to measure what locality gains, and a request of the
# control arm would find none of its cached tokens.
profiles: [{name: default, holdout: 0}]
policy: {dir: %q}
`, port, adminPort, state, line.PluginDir, keys, pool, demoModel, model, line.PolicyDir)
	line.Config = filepath.Join(state, "kvasir.yaml")
	return os.WriteFile(line.Config, []byte(yaml), 0o600)
}

// announce prints what to try once the router is ready.
func (f *devFlags) announce(ctx context.Context, h *host.Host, line *devLine, out io.Writer) {
	select {
	case <-h.Ready():
	case <-ctx.Done():
		return
	}
	line.URL, line.Admin, line.AdminToken = "http://"+h.Addr(), "http://"+h.AdminAddr(), h.AdminToken()
	if f.json {
		json.NewEncoder(out).Encode(line)
		return
	}
	fmt.Fprintf(out, "Kvasir serves %s in front of %d simulated engines.\n\n", line.URL, len(line.Engines))
	for _, e := range line.Engines {
		fmt.Fprintf(out, "  engine  %s\n", e.URL)
	}
	for _, t := range []string{"acme", "globex"} {
		fmt.Fprintf(out, "  tenant  %-7s key %s\n", t, line.Tenants[t])
	}
	fmt.Fprintf(out, "  admin   %s token %s\n  config  %s\n"+
		"  plugins %s (a module saved here as NAME.wasm places the next request)\n"+
		"  policy  %s (an edit below data/tenants applies to the next request)\n",
		line.Admin, line.AdminToken, line.Config, line.PluginDir, line.PolicyDir)
	fmt.Fprintf(out, `
Try (twice: the second answer reports cached_tokens):

  curl -N %s/v1/chat/completions -H "Authorization: Bearer %s" -H "Content-Type: application/json" -d '`+
		`{"model": %q, "stream": true, "max_tokens": 32, "stream_options": {"include_usage": true}, "messages": [`+
		`{"role": "system", "content": "You are a careful engineer who answers in one sentence, names the assumption it `+
		`rests on, and says what would change the answer."}, {"role": "user", "content": "Where does my request go?"}]}'

See why it went where it went (ID is the x-request-id header, which curl -i shows):

  export KVASIR_ADMIN=%s KVASIR_TOKEN=%s
  kvasir explain --request ID

Ctrl-C stops everything.
`, line.URL, line.Tenants["acme"], line.Model, line.Admin, line.AdminToken)
}
