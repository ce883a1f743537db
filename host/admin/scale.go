package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
)

// Scaler tells of the autoscaler.
type Scaler interface {
	// Autoscale returns what each group of pools measured, proposed and did.
	Autoscale(ctx context.Context) ([]autoscale.Status, error)
	// Notice makes an endpoint drain, since it will be taken away. An unknown pool
	// is ErrNotFound.
	Notice(ctx context.Context, n *Notice) (*Notice, error)
}

// Notice says that an endpoint will be taken away, as the owner of a spot
// machine tells.
type Notice struct {
	Pool     string    `json:"pool"`
	Endpoint string    `json:"endpoint"` // the driver's id, or the URL
	Deadline time.Time `json:"deadline"` // RFC 3339; absent = in two minutes
}

// noticeTime is what spot markets give.
const noticeTime = 2 * time.Minute

// ParseNotice reads the body of POST /v1/autoscale/notice. Its errors wrap
// ErrRefused.
func ParseNotice(b []byte, now time.Time) (*Notice, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var n Notice
	if err := d.Decode(&n); err != nil {
		return nil, fmt.Errorf(`%w: want {"pool": …, "endpoint": …, "deadline": "2026-01-02T15:04:05Z"}: %v`, ErrRefused, err)
	}
	if n.Pool == "" || n.Endpoint == "" {
		return nil, fmt.Errorf("%w: pool and endpoint are needed", ErrRefused)
	}
	if n.Deadline.IsZero() {
		n.Deadline = now.Add(noticeTime)
	}
	return &n, nil
}

func (s *Server) notice(w http.ResponseWriter, r *http.Request) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	n, err := ParseNotice(body, time.Now())
	if err != nil {
		s.answer(w, r, func(context.Context) (any, error) { return nil, err })
		return
	}
	d := deed{ScopeAutoscaleWrite, "pool/" + n.Pool, map[string]string{"endpoint": n.Endpoint, "deadline": n.Deadline.UTC().Format(time.RFC3339)}}
	s.change(w, r, d, func(ctx context.Context) (any, error) { return s.cfg.Scaler.Notice(ctx, n) })
}
