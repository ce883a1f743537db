package host

import (
	"context"
	"fmt"
	"strings"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// holder takes endpoints out of service by hand.
type holder struct{ h *Host }

var holds = map[string]endpoint.Hold{"cordon": endpoint.HoldCordoned, "drain": endpoint.HoldDrained,
	"uncordon": endpoint.HoldNone}

// Hold implements admin.Holder.
func (o holder) Hold(_ context.Context, url, verb string) (*admin.HoldResult, error) {
	url = strings.TrimRight(url, "/")
	n := o.h.fleet.Hold(url, holds[verb])
	if n == 0 {
		return nil, fmt.Errorf("%w: there is no endpoint %q (kvasir endpoint list)", admin.ErrNotFound, url)
	}
	return &admin.HoldResult{Endpoint: url, Held: holds[verb].String(), Pools: n}, nil
}
