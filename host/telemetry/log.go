package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// LogConfig is the configuration of the process log.
type LogConfig struct {
	Format string // text ("" too) or json
	Level  string // debug, info ("" too), warn, error
}

// NewLogHandler returns the handler of the process's logger, and its level, which
// may be changed while it is in use. The values of attributes whose key names a
// secret are written as "redacted".
func NewLogHandler(w io.Writer, cfg LogConfig) (slog.Handler, *slog.LevelVar, error) {
	level := new(slog.LevelVar)
	if cfg.Level != "" {
		if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
			return nil, nil, fmt.Errorf("telemetry: log level %q, want debug, info, warn or error", cfg.Level)
		}
	}
	opt := &slog.HandlerOptions{Level: level, ReplaceAttr: redact}
	switch cfg.Format {
	case "", "text":
		return slog.NewTextHandler(w, opt), level, nil
	case "json":
		return slog.NewJSONHandler(w, opt), level, nil
	}
	return nil, nil, fmt.Errorf("telemetry: log format %q, want text or json", cfg.Format)
}

// redact hides secrets and writes durations readably.
func redact(_ []string, a slog.Attr) slog.Attr {
	switch strings.ToLower(a.Key) {
	case "key", "api_key", "token", "authorization", "salt", "cache_salt", "pepper", "secret", "password", "prompt":
		return slog.String(a.Key, "redacted")
	}
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().String())
	}
	return a
}
