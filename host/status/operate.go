package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Holder is the admin.Holder of a fleet: it takes endpoints out of service by hand.
type Holder struct {
	// HoldAll holds the endpoints with a base URL and returns their number.
	HoldAll func(url string, hold endpoint.Hold) int
}

var holds = map[string]endpoint.Hold{"cordon": endpoint.HoldCordoned, "drain": endpoint.HoldDrained,
	"uncordon": endpoint.HoldNone}

// Hold implements admin.Holder.
func (o Holder) Hold(_ context.Context, url, verb string) (*admin.HoldResult, error) {
	url = strings.TrimRight(url, "/")
	n := o.HoldAll(url, holds[verb])
	if n == 0 {
		return nil, fmt.Errorf("%w: there is no endpoint %q (kvasir endpoint list)", admin.ErrNotFound, url)
	}
	return &admin.HoldResult{Endpoint: url, Held: holds[verb].String(), Pools: n}, nil
}

// Scaling is the autoscaler; scaling.Manager is one.
type Scaling interface {
	Statuses() []autoscale.Status
	Notice(pool, endpoint string, deadline time.Time) error
}

// Scaler is the admin.Scaler of an autoscaler.
type Scaler struct{ Scaling Scaling }

// Autoscale implements admin.Scaler.
func (a Scaler) Autoscale(context.Context) ([]autoscale.Status, error) {
	return a.Scaling.Statuses(), nil
}

// Notice implements admin.Scaler.
func (a Scaler) Notice(_ context.Context, n *admin.Notice) (*admin.Notice, error) {
	if err := a.Scaling.Notice(n.Pool, n.Endpoint, n.Deadline); err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrNotFound, err)
	}
	return &admin.Notice{Pool: n.Pool, Endpoint: n.Endpoint, Deadline: n.Deadline.UTC().Truncate(time.Second)}, nil
}
