package host

import (
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// placement shows a scheduler's placement to the proxy, so that neither knows
// the other. It is used by one goroutine.
type placement struct {
	p *scheduler.Placement
	t proxy.Target
}

// Target implements proxy.Placement.
func (p *placement) Target() *proxy.Target {
	t := p.p.Target()
	p.t = proxy.Target{
		Addr: t.Addr, Host: t.Host, Authorization: t.Authorization, Rewrite: t.Rewrite, UsageInjection: t.UsageInjection,
		Timeouts: proxy.Timeouts(t.Timeouts),
	}
	return &p.t
}

// Next implements proxy.Placement.
func (p *placement) Next(status int) bool { return p.p.NextAfter(status) }

// FirstToken implements proxy.Placement.
func (p *placement) FirstToken() { p.p.FirstToken() }

// Answered implements proxy.Placement.
func (p *placement) Answered(id string) { p.p.Answered(id) }

// Done implements proxy.Placement.
func (p *placement) Done(o *proxy.Outcome) {
	p.p.Done(scheduler.Outcome{
		Status: o.Status, Err: outcomeErr[o.Err], TTFT: o.TTFT, E2E: o.E2E,
		PromptTokens: o.PromptTokens, CachedTokens: o.CachedTokens, OutputTokens: o.OutputTokens,
		HasUsage: o.HasUsage, HasCached: o.HasCached,
	})
	p.p = nil
}

// outcomeErr says what an end of the data path tells of the endpoint.
var outcomeErr = map[string]string{
	proxy.ErrClientGone:     scheduler.ErrClientGone,
	proxy.ErrShutdown:       scheduler.ErrClientGone,
	proxy.ErrConnect:        scheduler.ErrConnect,
	proxy.ErrConnectTimeout: scheduler.ErrConnect,
	proxy.ErrSend:           scheduler.ErrUpstreamDied,
	proxy.ErrNoAnswer:       scheduler.ErrUpstreamDied,
	proxy.ErrDied:           scheduler.ErrUpstreamDied,
	proxy.ErrMalformed:      scheduler.ErrBadUpstream,
	proxy.ErrSendTimeout:    scheduler.ErrTimeout,
	proxy.ErrFirstByte:      scheduler.ErrTimeout,
	proxy.ErrBetweenEvents:  scheduler.ErrTimeout,
	proxy.ErrTotalTimeout:   scheduler.ErrTimeout,
	proxy.ErrRewrite:        scheduler.ErrNotDispatched,
	proxy.ErrInternal:       scheduler.ErrNotDispatched,
}
