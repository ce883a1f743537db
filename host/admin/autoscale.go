package admin

import (
	"context"
	"time"
)

// notice checks a notice and passes it on.
func (s *Server) notice(c *call, n *Notice) (*Notice, error) {
	if err := readBody(c, n); err != nil {
		return nil, err
	}
	if err := n.Check(s.now()); err != nil {
		return nil, err
	}
	a := auditedAction{ActionNotice, "pool/" + n.Pool, map[string]string{"endpoint": n.Endpoint,
		"deadline": n.Deadline.UTC().Format(time.RFC3339)}}
	return audited(c, a, func(ctx context.Context) (*Notice, error) { return s.cfg.Scaler.Notice(ctx, n) })
}
