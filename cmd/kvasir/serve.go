package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/telemetry"
)

func serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "run the router",
		Long: "kvasir serve -c kvasir.yaml routes requests to the engines of the configuration file. It watches the file,\n" +
			"the keys, the policy and the plugins, and puts changes in force within a second; SIGHUP does so at once.\n" +
			"SIGTERM and SIGINT let requests in flight finish.",
		Args: cobra.NoArgs,
	}
	file := c.Flags().StringP("config", "c", "kvasir.yaml", "configuration file")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := config.Load(*file)
		if err != nil {
			return &exitError{exitNo, err}
		}
		log, level := logger(&cfg.Telemetry)
		h, err := host.New(cfg, host.Options{Log: log, LogLevel: level, Version: version,
			CompileChild: childCommand(log)})
		if err != nil {
			return &exitError{exitNo, err}
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		hup := make(chan os.Signal, 1)
		signal.Notify(hup, syscall.SIGHUP)
		defer signal.Stop(hup)
		if err := h.Run(ctx, reloads(ctx, hup)); err != nil {
			return &exitError{exitNo, err}
		}
		return nil
	}
	return c
}

// reloads turns signals into reload requests until ctx ends.
func reloads(ctx context.Context, hup <-chan os.Signal) <-chan struct{} {
	c := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-hup:
				select {
				case c <- struct{}{}:
				default: // a request is pending already
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return c
}

// logger returns the process's logger and its level. The settings were checked with
// the configuration.
func logger(t *config.Telemetry) (*slog.Logger, *slog.LevelVar) {
	handler, level, err := telemetry.NewLogHandler(os.Stderr, telemetry.LogConfig{Format: t.LogFormat, Level: t.LogLevel})
	if err != nil {
		handler = slog.NewTextHandler(os.Stderr, nil)
	}
	return slog.New(handler), level
}
