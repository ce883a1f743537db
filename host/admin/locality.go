package admin

import (
	"context"
	"strconv"
	"time"
)

// setLocality checks a weight of locality and passes it on.
func (s *Server) setLocality(c *call, q *LocalityRequest) (*Locality, error) {
	if err := readBody(c, q); err != nil {
		return nil, err
	}
	if err := q.Check(s.now()); err != nil {
		return nil, err
	}
	a := auditedAction{ActionLocality, "locality", map[string]string{"weight": strconv.FormatFloat(q.Weight, 'g', -1, 64)}}
	if !q.Until.IsZero() {
		a.detail["until"] = q.Until.UTC().Format(time.RFC3339)
	}
	return audited(c, a, func(ctx context.Context) (*Locality, error) { return s.cfg.Holder.SetLocality(ctx, q) })
}
