package host

import (
	"context"
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
)

// scaleAdmin is the autoscaler as the admin API sees it.
type scaleAdmin struct{ h *Host }

// Autoscale implements admin.Scaler.
func (a scaleAdmin) Autoscale(context.Context) (any, error) { return a.h.scaling.Statuses(), nil }

// Notice implements admin.Scaler.
func (a scaleAdmin) Notice(_ context.Context, n *admin.Notice) (any, error) {
	if err := a.h.scaling.Notice(n.Pool, n.Endpoint, n.Deadline); err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrNotFound, err)
	}
	return map[string]any{"pool": n.Pool, "endpoint": n.Endpoint, "deadline": n.Deadline.UTC().Format(time.RFC3339)}, nil
}
