// Package status answers what the admin API asks about a running router: its
// counts, its endpoints, and why requests went where they went.
package status

import (
	"context"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

// Config is what a Reporter reads. All fields are required.
type Config struct {
	Version string
	Started time.Time
	// Ready returns nil if requests are served, else why not.
	Ready func() error
	// Revision returns the number of the rules in force and since when they are.
	Revision func() (number uint64, since time.Time)

	State   *scheduler.State
	Proxy   *proxy.Proxy
	Index   *kvindex.Index
	Audit   *audit.Log
	Store   *endpoint.Store
	Watcher func(endpoint.ID) *backend.Watcher // of an endpoint; nil = it has none
}

// Reporter is the admin.Status of a router. It is safe for concurrent use.
type Reporter struct{ cfg Config }

// New returns a reporter.
func New(cfg Config) *Reporter { return &Reporter{cfg} }

// Ready implements admin.Status.
func (r *Reporter) Ready() error { return r.cfg.Ready() }

// Status implements admin.Status.
func (r *Reporter) Status(context.Context) (*admin.RouterStatus, error) {
	number, since := r.cfg.Revision()
	return &admin.RouterStatus{
		Version: r.cfg.Version, Started: r.cfg.Started, Revision: number, RulesSince: since,
		Scheduler: r.cfg.State.Stats(), Proxy: r.cfg.Proxy.Stats(), Index: r.cfg.Index.Stats(),
		AuditHead: r.cfg.Audit.Head().String(),
	}, nil
}
