package admin

import (
	"context"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
)

// Scaler shows what the autoscaler does.
type Scaler interface {
	// Autoscale returns what each group of pools measured, proposed and did.
	Autoscale(ctx context.Context) ([]autoscale.Status, error)
	// Notice makes an endpoint drain, since it will be taken away. An unknown pool
	// is ErrNotFound.
	Notice(ctx context.Context, n *Notice) (*Notice, error)
}

// notice passes a notice on.
func (s *Server) notice(c *call, n *Notice) (*Notice, error) {
	if err := readBody(c, n); err != nil {
		return nil, err
	}
	if err := n.Check(s.now()); err != nil {
		return nil, err
	}
	a := auditedAction{ActionNotice, "pool/" + n.Pool, map[string]string{"endpoint": n.Endpoint, "deadline": n.Deadline.UTC().Format(time.RFC3339)}}
	return audited(c, a, func(ctx context.Context) (*Notice, error) { return s.cfg.Scaler.Notice(ctx, n) })
}
