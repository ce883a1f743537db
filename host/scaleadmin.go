package host

import (
	"context"
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/autoscale"
)

// scaleAdmin is the autoscaler as the admin API sees it.
type scaleAdmin struct{ h *Host }

// Autoscale implements admin.Scaler.
func (a scaleAdmin) Autoscale(context.Context) ([]autoscale.Status, error) {
	return a.h.scaling.Statuses(), nil
}

// Notice implements admin.Scaler.
func (a scaleAdmin) Notice(_ context.Context, n *admin.Notice) (*admin.Notice, error) {
	if err := a.h.scaling.Notice(n.Pool, n.Endpoint, n.Deadline); err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrNotFound, err)
	}
	return &admin.Notice{Pool: n.Pool, Endpoint: n.Endpoint, Deadline: n.Deadline.UTC().Truncate(time.Second)}, nil
}
