package secret

import (
	"context"
	"fmt"
	"log/slog"
)

// Logger returns a logger that writes as l does and redacts credentials in
// messages and in attributes of any kind.
func Logger(l *slog.Logger) *slog.Logger { return slog.New(handler{l.Handler()}) }

// handler redacts records on their way to another handler.
type handler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, Redact(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(redactAttr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = redactAttr(a)
	}
	return handler{h.Handler.WithAttrs(clean)}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }

// redactAttr returns a without credentials. A value that has none keeps its
// kind.
func redactAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, Redact(v.String()))
	case slog.KindGroup:
		group := make([]slog.Attr, 0, len(v.Group()))
		for _, member := range v.Group() {
			group = append(group, redactAttr(member))
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		if text := fmt.Sprint(v.Any()); Has(text) {
			return slog.String(a.Key, Redact(text))
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}
