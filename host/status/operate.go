package status

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// Holder is the admin.Holder of a fleet: it takes endpoints out of service by hand.
type Holder struct {
	// HoldAll holds the endpoints with a base URL and returns their number.
	HoldAll func(url string, hold endpoint.Hold) int
	// State is the scheduler's state.
	State *scheduler.State
}

var holds = map[string]endpoint.Hold{"cordon": endpoint.HoldCordoned, "drain": endpoint.HoldDrained,
	"uncordon": endpoint.HoldNone}

// Hold implements admin.Holder.
func (o Holder) Hold(_ context.Context, url, verb string) (*admin.HoldResult, error) {
	url = strings.TrimRight(url, "/")
	n := o.HoldAll(url, holds[verb])
	if n == 0 {
		return nil, fmt.Errorf("%w: no endpoint %q (kvasir endpoint list)", admin.ErrNotFound, url)
	}
	return &admin.HoldResult{Endpoint: url, Held: holds[verb].String(), Pools: n}, nil
}

// Locality implements admin.Holder.
func (o Holder) Locality(context.Context) (*admin.Locality, error) {
	out := &admin.Locality{Weight: 1, Models: []admin.ModelLocality{}}
	if w := o.State.LocalitySwitch(); w != nil {
		out.Weight, out.Until = w.Weight, w.Until
	}
	all := o.State.Localities()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l := all[name]
		m := admin.ModelLocality{Model: name, Weight: l.Weight, Lowered: l.Lowered, Sampled: l.Sampled}
		if !math.IsNaN(l.Hit) {
			m.Hit, m.Spared = &l.Hit, &l.Spared
		}
		out.Models = append(out.Models, m)
	}
	return out, nil
}

// SetLocality implements admin.Holder.
func (o Holder) SetLocality(ctx context.Context, q *admin.LocalityRequest) (*admin.Locality, error) {
	if q.Weight == 1 {
		o.State.SetLocality(nil)
	} else {
		o.State.SetLocality(&scheduler.LocalitySwitch{Weight: q.Weight, Until: q.Until})
	}
	return o.Locality(ctx)
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
