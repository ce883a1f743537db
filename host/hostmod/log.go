package hostmod

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// A plugin may write logBurst lines at once and logPerSecond in the long run;
// further lines are counted and reported with the next one.
const (
	logBurst     = 20
	logPerSecond = 5
	maxLogBytes  = 1024
)

// Log returns kvasir:log/1, which writes to log.
func Log(log *slog.Logger) *wasm.HostModule {
	return &wasm.HostModule{
		Name: abi.ModuleLog,
		Open: func(g wasm.Guest) (any, error) { return newLimiter(time.Now()), nil },
		Funcs: []wasm.HostFunc{{
			Name: "log", Params: []wasm.Value{wasm.I32, wasm.I32, wasm.I32},
			Call: func(c *wasm.Call, st []uint64) { writeLine(log, c, st) }, Units: abi.FuelHostSystem,
		}},
	}
}

func writeLine(log *slog.Logger, c *wasm.Call, st []uint64) {
	b, ok := c.Read(uint32(st[1]), min(uint32(st[2]), maxLogBytes))
	if !ok {
		return
	}
	level := [...]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}[min(uint32(st[0]), 3)]
	if !log.Enabled(context.Background(), level) {
		return
	}
	l, _ := c.State().(*limiter)
	if l == nil {
		return
	}
	ok, dropped := l.take(time.Now())
	if !ok {
		return
	}
	log.LogAttrs(context.Background(), level, "plugin log", slog.String("plugin", c.Plugin()),
		slog.String("text", strings.ToValidUTF8(string(b), "?")), slog.Uint64("dropped", dropped))
}

// limiter is a token bucket.
type limiter struct {
	mu      sync.Mutex // guards what follows
	tokens  float64
	at      time.Time
	dropped uint64
}

func newLimiter(now time.Time) *limiter { return &limiter{tokens: logBurst, at: now} }

// take takes a token; dropped is the number of calls without one since the last token.
func (l *limiter) take(now time.Time) (ok bool, dropped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = min(logBurst, l.tokens+now.Sub(l.at).Seconds()*logPerSecond)
	l.at = now
	if l.tokens < 1 {
		l.dropped++
		return false, 0
	}
	l.tokens--
	dropped, l.dropped = l.dropped, 0
	return true, dropped
}
